"""Support by slice: each row is what the reports of that slice would have counted alone."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import ldpbeam
from ldpbeam.admission import ReportColumns, as_sent
from ldpbeam.arrays import Bytes, Uints
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import NO_SLICES, Slices
from ldpbeam.epoch_result import result_of_epoch
from ldpbeam.slice_support import SlicedSupport, with_slices
from ldpbeam.support import Support, UncountedReports, added, merged
from ldpbeam.transforms.coders import OptionalSupportCoder, SupportCoder
from tests.pipelines.running import collection

LABELS = {"arm": ["a", "b"], "country": ["DE", "other"]}
FORGOTTEN = 7
"""Of a label that the collection's file no longer has."""


def sliced(protocol: str = "loloha", size: int = 5) -> Collection:
    return replace(collection(protocol, size, "sliced"), slices=Slices.of(LABELS))


def reports(agreed: Collection, n: int) -> tuple[ReportColumns, Bytes, Uints]:
    """Columns as admitted, and their plain payloads and digests: of slices, of none, and of a lost label."""
    base = replace(agreed, slices=NO_SLICES)
    held = np.random.default_rng(2).integers(0, base.protocol.domain_size, n)
    plain = ldpbeam.simulate(base, ldpbeam.Index(held))
    known = np.array([*agreed.said_digests, agreed.digest, FORGOTTEN], np.uint64)
    digests = known[np.random.default_rng(1).integers(0, known.size, n)]
    columns = ReportColumns(agreed.digest, 0, plain.report_ids, with_slices(plain.payloads, digests))
    return columns, plain.payloads, digests


@pytest.mark.parametrize(
    ("protocol", "size"), [("loloha", 5), ("sue", 9), ("one_bit_mean", 11), ("olh", 300)]
)
def test_each_slice_counts_what_its_reports_would_count_alone(protocol: str, size: int) -> None:
    agreed = sliced(protocol, size)
    columns, payloads, digests = reports(agreed, 3000)
    cuts = (0, 1, 700, 700, 3000)
    parts = [columns.payloads[a:b] for a, b in pairwise(cuts)]
    found = agreed.counter.zero()
    assert isinstance(found, SlicedSupport)
    for part in parts:
        found.add(part, agreed.counter)
    each = agreed.protocol.counter
    for digest in {*digests.tolist()}:
        alone = Support.zero_of(each).add(payloads[digests == digest], each)
        assert found.of([digest]) == Support(alone.counts, alone.reports)
    whole = Support.zero_of(each).add(payloads, each)
    assert found.whole() == whole
    # In parts, in any order, on its way from worker to worker.
    coder = SupportCoder()
    total: Support | None = None
    for part in reversed(parts):
        one = agreed.counter.zero().add(part, agreed.counter)
        sent = pickle.loads(pickle.dumps(coder.decode(coder.encode(one))))
        assert sent == one
        total = merged(total, sent, {agreed.digest: agreed.counter})  # type: ignore[assignment]
        assert sent == one
    assert total == found
    assert coder.encode(total) == coder.encode(found)
    some = found.copy()
    some.add(parts[1], agreed.counter)
    assert some != found


def test_reports_of_many_slices_wait_for_their_table() -> None:
    agreed = replace(
        collection("loloha", 2000, "wide"), slices=Slices.of({"x": [str(i) for i in range(999)]})
    )
    columns, payloads, _ = reports(agreed, 500)
    counters = {agreed.digest: agreed.counter}
    waiting = added(None, agreed.digest, columns.payloads, counters)
    assert isinstance(waiting, UncountedReports)
    coder = OptionalSupportCoder()
    again = coder.decode(coder.encode(waiting))
    assert isinstance(again, UncountedReports)
    each = agreed.protocol.counter
    counted = again.counted(agreed.counter)
    assert isinstance(counted, SlicedSupport)
    assert counted.whole() == Support.zero_of(each).add(payloads, each)


@pytest.mark.parametrize("protocol", ["loloha", "sue", "one_bit_mean"])
def test_a_result_by_slice_is_that_of_the_reports_of_the_slice(protocol: str) -> None:
    agreed = sliced(protocol)
    base = replace(agreed, slices=NO_SLICES)
    columns, payloads, digests = reports(agreed, 4000)
    found = result_of_epoch(agreed, 0, [columns])
    assert [one.slice for one in found.slices] == list(agreed.slices.published[1:])
    for labels, attributes in ((), found.attributes), *((one.slice, one.attributes) for one in found.slices):
        inside = [set(labels) <= set(agreed.said_digests.get(one, ())) for one in digests.tolist()]
        some = ReportColumns(base.digest, 0, columns.report_ids[inside], payloads[inside])
        (alone,) = result_of_epoch(base, 0, [some]).attributes
        assert attributes[0].reports == alone.reports == sum(inside)
        assert np.array_equal(attributes[0].support, alone.support)
        assert alone.estimates is not None and attributes[0].estimates is not None
        assert np.array_equal(attributes[0].estimates.frequency, alone.estimates.frequency)
        assert alone.consistent is not None and attributes[0].consistent is not None
        assert np.array_equal(attributes[0].consistent, alone.consistent)
    assert len(columns) == found.reports > sum(one.attributes[0].reports for one in found.slices[4:])


def test_a_small_slice_is_withheld_alone() -> None:
    agreed = replace(sliced(), min_reports=700)
    found = result_of_epoch(agreed, 0, [reports(agreed, 4000)[0]])
    assert found.attributes[0].status == "ok"
    states = [(one.attributes[0].status, one.attributes[0].reports >= 700) for one in found.slices]
    assert {("ok", True), ("insufficient_reports", False)} == set(states)


def test_an_id_in_two_slices_is_a_conflict_and_a_copy_is_a_copy() -> None:
    agreed = sliced()
    columns, payloads, digests = reports(agreed, 40)
    other = np.roll(digests, 1)
    moved = replace(columns, payloads=with_slices(payloads, other))
    found = result_of_epoch(agreed, 0, [columns, columns, moved])
    assert found.account is not None
    changed = int((other != digests).sum())
    assert (found.account.counted, found.account.duplicate) == (40, 80 - changed)
    assert found.account.rejected == {"conflicting_report_id": changed}


def test_columns_go_out_as_they_came_in() -> None:
    agreed = sliced()
    columns, payloads, digests = reports(agreed, 30)
    sent = {one.digest: one for one in as_sent(agreed, columns)}
    assert sent.keys() == set(digests.tolist())
    for digest, one in sent.items():
        assert np.array_equal(one.payloads, payloads[digests == digest])
        assert np.array_equal(one.report_ids, columns.report_ids[digests == digest])
    base = replace(agreed, slices=NO_SLICES)
    assert as_sent(base, columns) == [columns]
    none = ReportColumns(agreed.digest, 0, columns.report_ids[:0], with_slices(payloads[:0], digests[:0]))
    assert as_sent(agreed, none) == []
    assert agreed.counter.zero().add(none.payloads, agreed.counter) == agreed.counter.zero()
