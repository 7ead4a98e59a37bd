"""One report per report id: the rule by a dictionary, in any order, in any shards."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam import dedup
from ldpbeam.admission import ReportColumns
from ldpbeam.arrays import Bytes, Ints, Uints, read_only
from ldpbeam.dedup import (
    distinct_and_one_per_id,
    distinct_reports,
    keep_one_per_id,
    repeated,
    repeated_by_ranges,
    shard_columns,
    unrepeated,
    without,
)
from tests.waiting import quickly

Pair = tuple[int, bytes]
IDS = st.sampled_from([0, 1, 2, 2**32, 2**63, 2**64 - 1, 3 << 40, 5 << 40]) | st.integers(0, 2**64 - 1)
PAYLOADS = st.sampled_from([b"aa", b"ab", b"ba"]) | st.binary(min_size=2, max_size=2)
REPORTS = st.lists(st.tuples(IDS, PAYLOADS), min_size=1, max_size=60)
KEYS = st.integers(0, 2**64 - 1).map(lambda x: x | 1)


@pytest.fixture(scope="module", autouse=True, params=[0, 4096], ids=["marked", "sorted"])
def sorted_up_to(request: pytest.FixtureRequest) -> Iterator[int]:
    """All tests twice: with repeats found by marks among any number of ids, and by sorting few ids."""
    assert dedup._SORTED == 4096
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedup, "_SORTED", request.param)
        yield request.param


def columns(reports: list[Pair], width: int = 2) -> ReportColumns:
    ids = np.array([name for name, _ in reports], np.uint64)
    payloads = np.frombuffer(b"".join(p for _, p in reports), np.uint8).reshape(-1, width)
    return ReportColumns(7, 3, ids, read_only(payloads))


def pairs(found: ReportColumns) -> list[Pair]:
    return [(int(i), row.tobytes()) for i, row in zip(found.report_ids, found.payloads, strict=True)]


def by_dictionary(reports: list[Pair]) -> dict[int, bytes]:
    kept: dict[int, bytes] = {}
    for name, payload in reports:
        kept[name] = min(payload, kept.get(name, payload))
    return kept


@settings(max_examples=50)
@given(REPORTS, KEYS, st.integers(0, 5))
def test_one_report_stays_per_id_the_least(reports: list[Pair], key: int, cuts: int) -> None:
    size = -(-len(reports) // (cuts + 1))
    parts = [columns(reports[i : i + size]) for i in range(0, len(reports), size)]
    found, duplicate, conflicting = keep_one_per_id(parts, key)
    wanted = by_dictionary(reports)
    assert dict(pairs(found)) == wanted
    assert len(found) == len(wanted)
    # What a person would count: the payloads of each id beyond its first, and everything said before.
    assert conflicting == len(set(reports)) - len(wanted)
    assert duplicate == len(reports) - len(set(reports))
    assert (found.digest, found.epoch) == (7, 3)
    back = keep_one_per_id([columns(reports[::-1])], key)
    assert sorted(pairs(back.columns)) == sorted(pairs(found))
    assert back[1:] == (duplicate, conflicting)


@settings(max_examples=40)
@given(REPORTS, KEYS)
def test_distinct_reports_and_one_per_id_are_found_at_once(reports: list[Pair], key: int) -> None:
    (distinct, copies), one = distinct_and_one_per_id([columns(reports)], key)
    wanted, left_out = distinct_reports([columns(reports)], key)
    then = keep_one_per_id([wanted], key)
    assert (pairs(distinct), copies) == (pairs(wanted), left_out)
    assert (pairs(one.columns), one[1:]) == (pairs(then.columns), then[1:])


@settings(max_examples=50)
@given(st.lists(IDS, min_size=1, max_size=200), KEYS, st.integers(3, 26))
def test_all_that_is_repeated_is_suspected(ids: list[int], key: int, most: int) -> None:
    given_ids = np.array(ids, np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedup, "_MOST_MARKS", most)
        found = dedup._suspects(given_ids, key).tolist()
    assert found == sorted(set(found))
    assert {i for i, name in enumerate(ids) if ids.count(name) > 1} <= set(found) <= set(range(len(ids)))


@pytest.mark.parametrize("kind", ["random", "counted", "counted in high bits"])
def test_few_others_are_suspected(kind: str) -> None:
    n = 100_000
    ids = np.arange(n, dtype=np.uint64) << np.uint64(40 * (kind == "counted in high bits"))
    if kind == "random":
        ids = np.random.Generator(np.random.Philox(5)).integers(0, 1 << 64, n, np.uint64)
    for key in (0x9E3779B97F4A7C15, 0xDEADBEEFCAFEBABF, 0x2545F4914F6CDD1D):
        assert dedup._suspects(ids, key).size < 0.15 * n
        ids[n - 7] = ids[123]
        assert {123, n - 7} <= set(dedup._suspects(ids, key).tolist())
        ids[n - 7] = ids[n - 8] + np.uint64(1 << 39)


@settings(max_examples=40)
@given(REPORTS, KEYS)
def test_payloads_are_asked_for_once_and_only_where_an_id_is_repeated(reports: list[Pair], key: int) -> None:
    whole, asked = columns(reports), list[Ints]()

    def payloads_of(rows: Ints) -> Bytes:
        asked.append(rows)
        return whole.payloads[rows]

    found = repeated(whole.report_ids, payloads_of, key)
    wanted = keep_one_per_id([whole], key)
    assert len(asked) == (len(by_dictionary(reports)) < len(reports))
    assert all((np.diff(rows) > 0).all() for rows in (*asked, found.rows))
    assert pairs(without(whole, found.rows)) == pairs(wanted.columns)
    assert found[1:] == wanted[1:]
    assert found.rows.size == found.duplicate + found.conflicting


@settings(max_examples=40)
@given(REPORTS, KEYS, st.lists(st.integers(0, 60), max_size=5), st.integers(0, 70))
def test_ranges_find_together_what_is_repeated(
    reports: list[Pair], key: int, cuts: list[int], at_once: int
) -> None:
    whole = columns(reports)
    edges = sorted({0, *(min(c, len(reports)) for c in cuts), len(reports)})

    def blocks() -> Iterator[Uints]:
        for a, b in pairwise(edges):
            yield np.frombuffer(b"x" + whole.report_ids[a:b].tobytes(), np.uint8)[1:].view(np.uint64)

    ranges = list(repeated_by_ranges(blocks, len(reports), lambda rows: whole.payloads[rows], key, at_once))
    wanted = repeated(whole.report_ids, lambda rows: whole.payloads[rows], key)
    assert sorted(row for each in ranges for row in each.rows.tolist()) == wanted.rows.tolist()
    assert all((np.diff(each.rows) > 0).all() for each in ranges)
    assert sum(each.duplicate for each in ranges) == wanted.duplicate
    assert sum(each.conflicting for each in ranges) == wanted.conflicting


def test_a_part_without_repeats_is_not_copied_for_another_ones() -> None:
    one, other, third = (columns([(i, b"ab") for i in ids]) for ids in ([1, 2], [3, 4], [4, 5]))
    left, duplicate, conflicting = unrepeated([one, other, third], 77)
    assert left[:2] == [one, other]
    assert pairs(left[2]) == [(5, b"ab")]
    assert (duplicate, conflicting) == (1, 0)


def test_one_id_with_many_payloads_is_not_slow() -> None:
    """What no key of a hash table helps against: 200,000 payloads under one id, each twice."""
    n = 200_000
    payloads = np.arange(n, dtype=">u4").view(np.uint8).reshape(-1, 4)
    once = ReportColumns(7, 3, np.full(n, 99, np.uint64), read_only(payloads))
    keep_one_per_id([columns([(1, b"ab")])], 1)
    found = quickly(lambda: keep_one_per_id([once, once], 12345), 5)
    assert pairs(found.columns) == [(99, bytes(4))]
    assert found[1:] == (n, n - 1)


@settings(max_examples=40)
@given(REPORTS, st.integers(0, 6))
def test_shards_hold_every_report_once_and_equal_ids_together(reports: list[Pair], bits: int) -> None:
    parts = list(shard_columns(columns(reports), bits))
    assert sorted(pair for _, part in parts for pair in pairs(part)) == sorted(reports)
    home: dict[int, int] = {}
    for shard, part in parts:
        assert 0 <= shard < 1 << bits
        assert len(part)
        for name, _ in pairs(part):
            assert home.setdefault(name, shard) == shard
    for name, payload in reports[:5]:
        ((shard, _),) = shard_columns(columns([(name, payload)]), bits)
        assert shard == home[name]
