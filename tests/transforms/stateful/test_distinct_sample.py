"""How many report ids are distinct, by a sample of them."""

from __future__ import annotations

import numpy as np
import pytest

from ldpbeam.arrays import Uints
from ldpbeam.transforms.stateful import distinct_sample
from ldpbeam.transforms.stateful.distinct_sample import SIZE, DistinctSample


def ids(count: int, seed: int = 1) -> Uints:
    return np.random.Generator(np.random.Philox(seed)).integers(0, 2**64, count, np.uint64)


def taken(parts: list[Uints]) -> DistinctSample:
    sample, reports = DistinctSample(), 0
    for part in parts:
        reports += part.size
        sample = sample.including(part, reports)
    return sample


def test_few_ids_are_counted_exactly() -> None:
    names = ids(SIZE - 1)
    assert taken([names, names[:0]]).distinct == SIZE - 1
    assert taken([]).distinct == 0


@pytest.mark.parametrize("count", [1_000, 30_000])
def test_the_estimate_is_near(count: int) -> None:
    """The number sampled is binomial: one seed of 20 is 6 standard deviations off with a chance of 1e-7."""
    for seed in range(20):
        sample = taken([ids(count, seed)])
        expected = count / 2**sample.bits
        assert SIZE / 2 < expected <= SIZE
        assert abs(len(sample.names) - expected) < 6 * expected**0.5
        assert sample.distinct == len(sample.names) << sample.bits


def test_the_sample_is_what_it_says() -> None:
    names = ids(3 * distinct_sample._BLOCK + 5)
    sample = taken([names[:7], names[7 : distinct_sample._BLOCK], names[distinct_sample._BLOCK :]])
    mixed = [name * int(distinct_sample._ODD) % 2**64 for name in names.tolist()]
    assert sample.names == sorted(m for m in mixed if m >> (64 - sample.bits) == 0)
    assert sample == taken([names])


def test_copies_change_nothing_but_how_many_are_sampled() -> None:
    names = ids(5_000)
    once, often = taken([names]), taken([names] * 8)
    assert often.bits == once.bits + 3
    assert often.names == [name for name in once.names if name >> (64 - often.bits) == 0]
    # Once copies are left out there are fewer reports; names that were dropped do not come back.
    assert often.including(names[:1], names.size) == often


def test_shards_are_sampled_alike() -> None:
    names = ids(100_000)
    shards = (names * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(61)
    for shard in range(8):
        part = names[shards == shard]
        sample = taken([part])
        assert abs(sample.distinct / part.size - 1) < 6 / (SIZE / 2) ** 0.5
