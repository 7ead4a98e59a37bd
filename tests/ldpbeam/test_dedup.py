"""One report per report id: the rule by a dictionary, in any order, in any shards."""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam import dedup
from ldpbeam.arrays import read_only
from ldpbeam.dedup import (
    any_repeat,
    distinct_and_one_per_id,
    distinct_reports,
    keep_one_per_id,
    shard_columns,
    unrepeated,
)
from ldpbeam.reports import ReportColumns
from tests.waiting import quickly

Pair = tuple[int, bytes]
IDS = st.sampled_from([0, 1, 2, 2**32, 2**63, 2**64 - 1, 3 << 40, 5 << 40]) | st.integers(0, 2**64 - 1)
PAYLOADS = st.sampled_from([b"aa", b"ab", b"ba"]) | st.binary(min_size=2, max_size=2)
REPORTS = st.lists(st.tuples(IDS, PAYLOADS), min_size=1, max_size=60)
KEYS = st.integers(0, 2**64 - 1).map(lambda x: x | 1)


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


@settings(max_examples=300)
@given(REPORTS, KEYS, st.integers(0, 5))
def test_one_report_stays_per_id_the_least(reports: list[Pair], key: int, cuts: int) -> None:
    """Among copies with different payloads the least stays, whatever the order and the parts."""
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


@settings(max_examples=300)
@given(REPORTS, KEYS, st.integers(1, 8))
def test_buckets_change_nothing(reports: list[Pair], key: int, bucket: int) -> None:
    """Ids are brought together in buckets before any is compared: the same reports, in the same order."""
    whole = columns(reports)
    wanted, distinct = keep_one_per_id([whole], key), distinct_reports([whole], key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedup, "_BUCKET", bucket)
        found, left = keep_one_per_id([whole], key), distinct_reports([whole], key)
        assert any_repeat([whole], key) == (len(by_dictionary(reports)) < len(reports))
        assert unrepeated([whole], key)[1:] == wanted[1:]
    assert (pairs(found.columns), found[1:]) == (pairs(wanted.columns), wanted[1:])
    assert (pairs(left[0]), left[1]) == (pairs(distinct[0]), distinct[1])
    assert dict(pairs(found.columns)) == by_dictionary(reports)


@settings(max_examples=200)
@given(REPORTS, KEYS)
def test_distinct_reports_and_one_per_id_are_found_at_once(reports: list[Pair], key: int) -> None:
    """As by the two functions one after the other."""
    (distinct, copies), one = distinct_and_one_per_id([columns(reports)], key)
    wanted, left_out = distinct_reports([columns(reports)], key)
    then = keep_one_per_id([wanted], key)
    assert (pairs(distinct), copies) == (pairs(wanted), left_out)
    assert (pairs(one.columns), one[1:]) == (pairs(then.columns), then[1:])


@pytest.mark.thorough
@settings(max_examples=300)
@given(REPORTS, KEYS, st.lists(st.integers(0, 60), max_size=5), st.randoms(use_true_random=False))
def test_copies_and_conflicts_are_told_apart_however_often_parts_are_put_together(
    reports: list[Pair], key: int, cuts: list[int], draw: random.Random
) -> None:
    """Any order, any bundles, any number of rewritings before the end: the same report and the same books."""
    wanted = keep_one_per_id([columns(reports)], key)
    shuffled = draw.sample(reports, len(reports))
    edges = [0, *sorted(min(c, len(reports)) for c in cuts), len(reports)]
    held: list[ReportColumns] = []
    copies = 0
    for a, b in pairwise(edges):
        if a == b:
            continue
        held.append(columns(shuffled[a:b]))
        if draw.random() < 0.7:
            together, left_out = distinct_reports(held, key)
            assert set(pairs(together)) == set().union(*(pairs(part) for part in held))
            assert len(set(pairs(together))) == len(together) == sum(map(len, held)) - left_out
            held, copies = [together], copies + left_out
    found = keep_one_per_id(held, key)
    assert sorted(pairs(found.columns)) == sorted(pairs(wanted.columns))
    assert (found.duplicate + copies, found.conflicting) == wanted[1:]


def test_one_id_with_many_payloads_is_not_slow() -> None:
    """What no key of a hash table helps against: 200,000 payloads under one id, each twice."""
    n = 200_000
    payloads = np.arange(n, dtype=">u4").view(np.uint8).reshape(-1, 4)
    once = ReportColumns(7, 3, np.full(n, 99, np.uint64), read_only(payloads))
    keep_one_per_id([columns([(1, b"ab")])], 1)
    found = quickly(lambda: keep_one_per_id([once, once], 12345), 5)
    assert pairs(found.columns) == [(99, bytes(4))]
    assert found[1:] == (n, n - 1)


@settings(max_examples=200)
@given(REPORTS, st.integers(0, 6))
def test_shards_hold_every_report_once_and_equal_ids_together(reports: list[Pair], bits: int) -> None:
    """Sharding loses nothing, keeps pairs together, and depends on the id alone."""
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


def test_unaligned_ids_of_a_batch_are_fine() -> None:
    """Ids lie anywhere in a file's bytes."""
    ids = np.frombuffer(b"abc" + np.arange(9, dtype="<u8").tobytes(), np.uint8)[3:].view("<u8")
    odd = ReportColumns(7, 3, ids, read_only(np.zeros((9, 2), np.uint8)))
    assert sum(len(part) for _, part in shard_columns(odd, 3)) == 9
    assert keep_one_per_id([odd, odd], 5)[1:] == (9, 0)


@pytest.mark.parametrize("kind", ["low bits", "high bits", "steps"])
def test_crafted_ids_are_not_slow(kind: str) -> None:
    """200,000 ids that agree in their low or high bits take no longer than others, whatever the key."""
    n = 200_000
    made = {
        "low bits": np.arange(n, dtype=np.uint64) << np.uint64(44),
        "high bits": np.arange(n, dtype=np.uint64),
        "steps": np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15),
    }[kind]
    held = ReportColumns(7, 3, made, read_only(np.zeros((n, 1), np.uint8)))
    keep_one_per_id([columns([(1, b"ab")])], 1)
    for key in (1, 0x9E3779B97F4A7C15, 0xDEADBEEFCAFEBABF):
        found = quickly(partial(keep_one_per_id, [held], key), 2)
        assert (len(found.columns), found.duplicate, found.conflicting) == (n, 0, 0)
