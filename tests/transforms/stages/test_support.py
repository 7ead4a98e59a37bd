"""The CombineFn is a monoid of integers, and what travels between workers is small and exact."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from apache_beam.internal import pickler
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.admission import Parts, ReportColumns, put_together
from ldpbeam.arrays import read_only
from ldpbeam.collection.collection import Collection
from ldpbeam.epoch_result import count_support
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.support import Support, UncountedReports
from ldpbeam.transforms.coders import (
    PartsCoder,
    ReportColumnsCoder,
    SupportCoder,
)
from ldpbeam.transforms.stages.support import CountSupportOfEach
from tests.pipelines.running import collection

AGREED = {name: collection(name, 11, name) for name in ("grr", "sue", "loloha")}


def columns(agreed: Collection, n: int, seed: int) -> ReportColumns:
    draw = np.random.default_rng(seed)
    rows = draw.integers(0, 256, (50 * n + 50, agreed.protocol.device.payload_size), np.uint8)
    rows &= np.uint8(0x07) if agreed.protocol_name == "loloha" else np.uint8(0xFF)
    rows[:, -1] &= np.uint8(7)
    kept = rows[agreed.protocol.counter.check(read_only(rows)) == 0][:n]
    assert len(kept) == n
    ids = draw.integers(0, 1 << 63, n).astype(np.uint64)
    return ReportColumns(agreed.digest, 3, ids, read_only(kept))


@pytest.mark.parametrize("name", AGREED)
@settings(max_examples=20)
@given(st.lists(st.integers(0, 9), max_size=8), st.randoms(use_true_random=False))
def test_grouping_and_order_of_merges_do_not_matter(name: str, sizes: list[int], draw: object) -> None:
    """Any tree of add_input and merge_accumulators over any order gives the counts of a plain loop."""
    agreed = AGREED[name]
    count = CountSupportOfEach(list(AGREED.values()))
    batches = [columns(agreed, n, i) for i, n in enumerate(sizes)]
    wanted = count_support(agreed, batches)
    draw.shuffle(batches)  # type: ignore[attr-defined]
    parts = [count.create_accumulator()]
    for batch in batches:
        if draw.random() < 0.5:  # type: ignore[attr-defined]
            parts.append(count.create_accumulator())
        parts[-1] = count.add_input(parts[-1], Parts([batch]))
    while len(parts) > 1:
        draw.shuffle(parts)  # type: ignore[attr-defined]
        some = 1 + draw.randrange(len(parts))  # type: ignore[attr-defined]
        parts = [count.merge_accumulators(parts[:some]), *parts[some:]]
        if some == 1:
            parts = [count.merge_accumulators(parts)]
    assert count.extract_output(parts[0]) == (wanted if batches else None)
    assert wanted.reports == sum(sizes)


def test_accumulators_are_never_shared() -> None:
    count = CountSupportOfEach([AGREED["grr"]])
    batch = columns(AGREED["grr"], 5, 1)
    one, two = (count.add_input(count.create_accumulator(), Parts([batch])) for _ in range(2))
    assert isinstance(one, Support)
    assert isinstance(two, Support)
    assert one.counts is not two.counts
    before = one.counts.copy()
    total = count.merge_accumulators(iter([one, two, one]))
    assert isinstance(total, Support)
    assert total.counts is not one.counts
    assert (total.counts == 3 * before).all()
    assert (one.counts == before).all()
    assert count.merge_accumulators([]) is count.create_accumulator() is None
    assert not batch.payloads.flags.writeable


_TWO = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=11, hash_family="linear")
LARGE = collection("loloha", 8_000, "large", parameters=_TWO)
"""Its table has 11^5 cells less 11, whatever it counts."""


def test_reports_wait_for_a_large_table_and_give_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are batched, merged and encoded, until they take half the memory of the table."""
    monkeypatch.setattr("ldpbeam.support.LARGE_TABLE", 1 << 17)
    protocol = LARGE.protocol
    assert protocol.counter.counts_length == 11**5 - 11 > 1 << 17
    count = CountSupportOfEach([LARGE, AGREED["loloha"]])
    cells = (
        np.random.default_rng(5)
        .integers(0, protocol.counter.counts_length, (9, 1_000), np.int64)
        .astype("<u4")
    )
    batches = [
        ReportColumns(
            LARGE.digest,
            3,
            np.arange(1_000, dtype=np.uint64),
            read_only(row.view(np.uint8).reshape(-1, 4)[:, :3]),
        )
        for row in cells
    ]
    wanted = count_support(LARGE, batches)
    coder = count.get_accumulator_coder()
    parts = []
    for some in (batches[:2], [], batches[2:3], batches[3:]):
        part = count.add_input(count.create_accumulator(), Parts(some))
        assert part is None or (isinstance(part, UncountedReports) and part.nbytes == 3 * part.reports)
        encoded = coder.encode(count.compact(part))
        assert coder.estimate_size(part) == len(encoded)
        assert len(encoded) == (17 + 3_000 * len(some) if some else 0)
        parts.append(coder.decode(encoded))
    total = count.merge_accumulators(parts)
    assert isinstance(total, UncountedReports)
    assert total.reports == wanted.reports == 9_000
    assert total.counted(protocol.counter) == wanted
    assert pickler.loads(pickler.dumps(total)).counted(protocol.counter) == wanted
    # As many as half of the table: from then on it is a table, whichever of the two comes first.
    enough = -(-4 * protocol.counter.counts_length // 27_000)
    table = count.merge_accumulators([total] * enough)
    assert isinstance(count.merge_accumulators([total] * (enough - 1)), UncountedReports)
    assert isinstance(table, Support)
    assert (table.counts == enough * wanted.counts).all()
    pairs: tuple[list[Support | UncountedReports], ...] = ([table, total], [total, table])
    for both in pairs:
        mixed = count.merge_accumulators(both)
        assert isinstance(mixed, Support)
        assert (mixed.counts == (enough + 1) * wanted.counts).all()
        assert mixed.reports == 9_000 * (enough + 1)
    assert (table.counts == enough * wanted.counts).all()
    more = count.add_input(table, Parts(batches[:1]))
    assert more is not None
    assert more.reports == 9_000 * enough + 1_000


@pytest.mark.parametrize("top", [255, 256, 1 << 32, -1])
def test_a_pickled_table_is_as_narrow_as_its_cells(top: int) -> None:
    """Between the steps of a run Beam pickles counts; 8 bytes per cell would be copied many times."""
    support = Support(np.array([0, top] * 5_000), 7, np.array([1, 2]))
    pickled = pickler.dumps(support)
    width = 8 if top < 0 or top >> 32 else 4 if top >> 16 else 2 if top >> 8 else 1
    wide = len(pickle.dumps(support)) - 10_000 * width
    assert 0 < wide < 400
    found = pickler.loads(pickled)
    assert found == support
    assert found.counts.dtype == found.signs.dtype == np.int64
    found.counts += 1  # ours


@pytest.mark.parametrize("top", [2**8 - 1, 2**16, 2**32 - 1, 2**63 - 1, -1])
@pytest.mark.parametrize("cells", [0, 11])
def test_accumulators_survive_the_wire_at_the_edges(top: int, cells: int) -> None:
    coder = SupportCoder()
    value = Support(np.arange(cells, dtype=np.int64) * 0 + top, max(top, 0))
    encoded = coder.encode(value)
    back = coder.decode(encoded)
    assert back == value
    assert back.counts.dtype == np.int64
    assert coder.encode(back) == encoded
    assert coder.is_deterministic()
    back.counts += 0
    width = next((w for w, limit in ((1, 8), (2, 16), (4, 32)) if 0 <= top < 1 << limit), 8)
    assert len(encoded) <= 17 + cells * width
    signed = Support(value.counts, value.reports, np.array([2, 1]))
    assert coder.decode(coder.encode(signed)).signs.tolist() == [2, 1]


@given(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, 20), st.integers(1, 9))
def test_columns_survive_the_wire(digest: int, epoch: int, n: int, width: int) -> None:
    draw = np.random.default_rng(n)
    ids = np.frombuffer(b"x" + draw.bytes(8 * n), np.uint8)[1:].view("<u8")
    payloads = read_only(draw.integers(0, 256, (n, width), np.uint8))
    coder = ReportColumnsCoder()
    encoded = coder.encode(ReportColumns(digest, epoch, ids, payloads))
    back = coder.decode(encoded)
    assert (back.digest, back.epoch) == (digest, epoch)
    assert (back.report_ids == ids).all()
    assert (back.payloads == payloads).all()
    assert back.payloads.shape == payloads.shape
    assert not back.payloads.flags.writeable
    assert coder.encode(back) == encoded


def test_parts_are_sent_as_the_columns_that_they_are_together() -> None:
    parts = Parts(columns(AGREED["loloha"], n, n) for n in (3, 1, 4))
    whole, coder = put_together(parts), PartsCoder()
    encoded = coder.encode(parts)
    assert encoded == ReportColumnsCoder().encode(whole) == coder.encode(Parts([whole]))
    assert coder.estimate_size(parts) == len(encoded)
    (back,) = coder.decode(encoded)
    assert (back.digest, back.epoch) == (whole.digest, whole.epoch)
    assert (back.report_ids == whole.report_ids).all()
    assert (back.payloads == whole.payloads).all()
    assert isinstance(coder.decode(encoded), Parts)
    assert coder.is_deterministic()
