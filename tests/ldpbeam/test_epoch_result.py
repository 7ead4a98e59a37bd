"""The driver beyond the usual case; tests/pipelines/test_bounded.py holds it against the pipeline."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ldpbeam.accounting import LATE, Account, Publication
from ldpbeam.admission import ReportColumns
from ldpbeam.arrays import read_only
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.epoch_result import count_support, result_of_epoch
from ldpbeam.histogram import INSUFFICIENT, TOO_MANY_ERRORS
from ldpbeam.protocols import Parameters
from tests.narrow import present
from tests.pipelines.running import counting_collections, fleet

AGREED = Collection(
    name="c",
    domain=Domain(4),
    protocol_name="grr",
    version=1,
    parameters=Parameters(epsilon=1.0),
    epochs=Epochs(3600, 0, 10),
)


def columns(values: list[int], first: int = 0) -> ReportColumns:
    """Reports of GRR, whose payload is the value, with consecutive ids."""
    ids = np.arange(first, first + len(values), dtype=np.uint64)
    return ReportColumns(AGREED.digest, 2, ids, read_only(np.array(values, np.uint8)[:, None]))


def test_every_report_counts_once_and_the_account_says_what_became_of_the_others() -> None:
    # Ids 0 and 1 come again as they were; id 2 with another payload, of which the smaller one counts.
    found = result_of_epoch(AGREED, 2, [columns([0, 1, 3, 3]), columns([0, 1, 2])])
    assert found.account == Account(
        read=7, counted=4, duplicate=2, rejected=Counter({"conflicting_report_id": 1})
    )
    assert found.attributes[0].support.tolist() == [1, 1, 1, 1]
    assert found.reports == 4
    assert found.attributes[0].consistent is not None
    assert (found.revision, found.pane, found.closed) == (0, "on_time", True)


def test_what_was_booked_before_is_part_of_the_account_and_stays_as_it_was() -> None:
    booked = Account(read=9, late=2, rejected=Counter({"malformed": 3}))
    which = Publication(7, LATE, closed=False, position={"segment": 5})
    found = result_of_epoch(AGREED, 2, iter([columns([0, 1, 2, 3])]), booked, which)
    assert found.account == Account(read=9, counted=4, late=2, rejected=Counter({"malformed": 3}))
    assert (found.revision, found.pane, found.closed, found.position) == (7, LATE, False, {"segment": 5})
    assert booked == Account(read=9, late=2, rejected=Counter({"malformed": 3}))


@pytest.mark.parametrize(("limit", "withheld"), [(0.3, TOO_MANY_ERRORS), (0.4, "")])
def test_nothing_is_estimated_where_too_much_was_rejected(limit: float, withheld: str) -> None:
    booked = Account(read=6, rejected=Counter({"malformed": 2}))
    found = result_of_epoch(AGREED, 2, [columns([0, 1, 2, 3])], booked, max_error_fraction=limit)
    assert found.withheld == withheld
    assert bool(found.attributes) == (not withheld)


def test_of_too_few_reports_the_support_is_published_alone() -> None:
    collection = Collection(**{**_fields(), "min_reports": 5})
    found = result_of_epoch(collection, 2, [columns([0, 1, 2, 3])])
    assert found.attributes[0].status == INSUFFICIENT
    assert found.attributes[0].estimates is None


def _fields() -> dict[str, Any]:
    names = ("name", "domain", "protocol_name", "version", "parameters", "epochs")
    return {name: getattr(AGREED, name) for name in names}


def test_support_is_of_all_parts() -> None:
    some = count_support(AGREED, [columns([0, 1]), columns([1, 3])])
    assert (some.reports, some.counts.tolist()) == (4, [1, 2, 0, 1])
    empty = count_support(AGREED, [])
    assert (empty.reports, empty.counts.tolist()) == (0, [0, 0, 0, 0])


def test_signs_of_forged_reports_are_counted_with_the_support() -> None:
    agreed = next(c for c in counting_collections() if c.protocol_name == "sue")
    payloads = np.concatenate([batch.payloads for batch in fleet(agreed, 40, 1)])
    payloads[::2] = np.frombuffer(
        ((1 << present(agreed.domain).size) - 1).to_bytes(payloads.shape[1], "little"), np.uint8
    )
    sent = ReportColumns(agreed.digest, 0, np.arange(40, dtype=np.uint64), read_only(payloads))
    wanted = np.zeros(agreed.protocol.counter.signs_length, np.int64)
    agreed.protocol.counter.add_signs(sent.payloads, wanted)
    assert wanted.any()
    assert count_support(agreed, [sent]).signs.tolist() == wanted.tolist()
