"""The slices that devices of a fleet say; else their reports are those of a fleet without slices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ldpbeam
from ldpbeam.admission import ReportColumns, as_sent, batch_message
from ldpbeam.collection.slices import Slices
from ldpbeam.collection.values import Index
from ldpbeam.errors import DeviceError

TEXT = """name: first_screen
domain: {labels: [home, search, feed]}
protocol: l_grr
epsilon_longitudinal: 2
epsilon_first: 1
epoch: {length: 1d}
"""
PLAIN = ldpbeam.parse_collection(TEXT)
SLICED = replace(PLAIN, slices=Slices.of({"arm": ["a", "b"], "country": ["DE", "FR", "other"]}))
HELD = Index(np.array([0, 1, -1, 2, 2]))
COUNTRIES = ["DE", "FR", None, "XX", "DE"]


def digest(arm: str, country: str) -> int:
    return SLICED.slice_digest((("arm", arm), ("country", country)))


def rows(columns: ReportColumns) -> list[tuple[int, bytes]]:
    pairs = zip(columns.report_ids.tolist(), columns.payloads, strict=True)
    return [(report_id, payload.tobytes()) for report_id, payload in pairs]


def test_a_fleet_with_slices_sends_what_one_without_sends_but_for_the_digest() -> None:
    sliced, plain = (ldpbeam.Fleet(one, 5, 7, rows_per_batch=2) for one in (SLICED, PLAIN))
    for epoch, arm in enumerate(("a", "b")):
        mine = sliced.report(HELD, slice={"country": COUNTRIES, "arm": arm})
        other = plain.report(HELD)
        assert (mine.digest, mine.epoch) == (PLAIN.digest, epoch)
        assert mine.report_ids.tolist() == other.report_ids.tolist()
        assert mine.payloads[:, :-8].tolist() == other.payloads.tolist()
        said = np.ascontiguousarray(mine.payloads[:, -8:]).view("<u8")[:, 0].tolist()
        assert said == [digest(arm, one) for one in ("DE", "FR", "other", "DE")]
        # What they send is admitted as what they sent.
        sent = [batch_message(part) for part in as_sent(SLICED, mine)]
        admitted = ldpbeam.admit(SLICED, sent).admitted
        assert sorted(pair for part in admitted for pair in rows(part)) == sorted(rows(mine))
    assert np.array_equal(sliced.memoised_inputs(), plain.memoised_inputs())


@pytest.mark.parametrize("column", [pa.array, np.array, iter, tuple])
def test_labels_are_one_for_all_or_a_column(column: Any) -> None:
    given = ["DE", "FR", "DE", "other", "DE"]
    mine = ldpbeam.simulate(SLICED, HELD, seed=7, slice={"arm": "a", "country": column(given)})
    digests = np.array([digest("a", one) for one in given], np.uint64)
    fleet = ldpbeam.Fleet(SLICED, 5, 7)
    assert np.array_equal(mine.payloads, fleet.report(HELD, slice=digests).payloads)
    assert ldpbeam.simulate(
        SLICED, Index(np.array([-1])), slice={"arm": "a", "country": "DE"}
    ).payloads.shape == (
        0,
        mine.payloads.shape[1],
    )


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (None, DeviceError, "takes a label for each of arm, country"),
        ({"country": "DE"}, DeviceError, "takes a label for each"),
        ({"arm": "c", "country": "DE"}, DeviceError, "the device says of arm is none"),
        ({"arm": ["a", "a", "a", "c", "a"], "country": "DE"}, DeviceError, "device 3: the label"),
        ({"arm": ["a", None, "a", "a", "a"], "country": "DE"}, DeviceError, "device 1: the label"),
        ({"arm": ["a"] * 4, "country": "DE"}, ValueError, "5 devices, and 4 labels of arm"),
        (np.zeros(4, np.uint64), ValueError, "5 devices, and 4 digests"),
    ],
)
def test_other_slices_are_refused_and_nothing_is_reported(given: Any, error: Any, text: str) -> None:
    fleet = ldpbeam.Fleet(SLICED, 5, 7)
    with pytest.raises(error, match=text):
        fleet.report(HELD, slice=given)
    good = {"arm": "a", "country": "DE"}
    mine = fleet.report(HELD, slice=good)
    assert np.array_equal(mine.payloads, ldpbeam.simulate(SLICED, HELD, seed=7, slice=good).payloads)
    with pytest.raises(DeviceError, match="has no slices"):
        ldpbeam.simulate(PLAIN, HELD, slice=good)
    with pytest.raises(ValueError, match="5 devices, and 5 digests"):
        ldpbeam.simulate(PLAIN, HELD, slice=np.zeros(5, np.uint64))
