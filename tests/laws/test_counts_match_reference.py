"""Fast counting equals slow counting, bit for bit, for every protocol and hash family."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ldpbeam.arrays import read_only
from ldpbeam.errors import CollectionError
from ldpbeam.hashing import (
    AffineFamily,
    IntervalFamily,
    LinearFamily,
    is_prime,
    optimal_prime,
    optimal_stretches,
)
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols import LocalProtocol, Parameters, protocol
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from tests.narrow import supporting
from tests.reference.counting import (
    affine_hash,
    count_reports,
    count_support,
    cuts,
    interval_hash,
    linear_hash,
    linear_transform,
)
from tests.reference.settings import Setting, settings, supporting_settings


def sound_payloads(built: LocalProtocol[Any], n: int, seed: int) -> np.ndarray:
    """Payloads that ``decode`` takes: uniform over the bits and then filtered, or of a fleet."""
    draw = np.random.default_rng(seed)
    rows = draw.integers(0, 256, (40 * n + 500, built.device.payload_size), np.uint8)
    rows[:, -1] &= np.uint8(0xFF >> (-built.device.payload_bits % 8))
    # Symbols of the affine family are small: give them a chance.
    rows[: len(rows) // 2, 16:] &= np.uint8(3)
    sound = rows[built.counter.check(rows) == 0][:n]
    if len(sound) < n:
        # Hardly any bytes are ascending buckets, or sets of a few values: a fleet's reports fill up.
        values = draw.integers(0, built.domain_size, n - len(sound)).astype(np.int32)
        fleet = ProtocolFleet(built, max(len(values), 1), RandomWords(seed), rows_per_batch=1 << 20)
        sound = np.concatenate([sound, *(b.payloads for b in fleet.reports(0, values))])
    return sound


@pytest.mark.cases(8)
@pytest.mark.parametrize("setting", supporting_settings((96,)), ids=str)
def test_counts_equal_reference_on_two_thousand_reports(setting: Setting) -> None:
    built = supporting(setting.build())
    payloads = sound_payloads(built, 2000, 7)
    assert len(payloads) == 2000
    counts = np.zeros(built.counter.counts_length, np.int64)
    built.counter.add(payloads, counts)
    assert counts.dtype == np.int64
    found = built.counter.support_counts(counts)
    assert found.shape == (96,)
    raw = [row.tobytes() for row in payloads]
    assert found.tolist() == count_support(built, raw)
    behind = np.broadcast_to(built.counter.report_counts(counts, len(raw)), found.shape)
    assert behind.tolist() == count_reports(built, raw)


@pytest.mark.parametrize("setting", supporting_settings((2, 9, 17)), ids=str)
def test_counts_equal_reference_on_few_reports(setting: Setting) -> None:
    built = supporting(setting.build())

    @hypothesis_settings(max_examples=10)
    @given(st.integers(0, 2**32), st.integers(0, 12), st.integers(0, 3))
    def check(seed: int, n: int, repeats: int) -> None:
        payloads = np.repeat(sound_payloads(built, n, seed), repeats, axis=0)
        counts = np.zeros(built.counter.counts_length, np.int64)
        built.counter.add(payloads, counts)
        expected = count_support(built, [row.tobytes() for row in payloads])
        assert built.counter.support_counts(counts).tolist() == expected

    check()


@pytest.mark.parametrize("k", [256, 257, 65_536, 65_537, 1 << 24])
def test_symbols_of_every_width_are_checked_and_counted(k: int) -> None:
    built = protocol("grr", k, Parameters(epsilon=1.0))
    width = built.device.payload_size
    symbols = [0, 1, k - 1, k // 2, k - 1] + [k] * (k < 256**width)
    payloads = np.frombuffer(b"".join(x.to_bytes(width, "little") for x in symbols), np.uint8)
    payloads = payloads.reshape(-1, width)
    for rows in (payloads, payloads[:5], payloads[:0]):
        codes = built.counter.check(rows)
        assert codes.tolist() == [CheckCode.VALUE_OUT_OF_RANGE if x == k else 0 for x in symbols[: len(rows)]]
    counts = np.zeros(built.counter.counts_length, np.int64)
    built.counter.add(payloads[:5], counts)
    assert counts.sum() == 5
    assert [counts[v] for v in (0, 1, k // 2, k - 1)] == [1, 1, 1, 2]


@pytest.mark.parametrize("n", [254, 255, 256, 510, 511, 1000])
def test_full_bit_vectors_do_not_overflow_the_byte_planes(n: int) -> None:
    built = next(s for s in settings((11,)) if s.name == "sue").build()
    payloads = np.tile(np.array([[255, 7]], np.uint8), (n, 1))
    counts = np.zeros(11, np.int64)
    built.counter.add(payloads, counts)
    assert counts.tolist() == [n] * 11


def test_affine_counting_crosses_its_tiles() -> None:
    family = AffineFamily(5, 9001)
    draw = random.Random(3)
    seeds = [draw.randrange(1 << 128) for _ in range(6)]
    payloads = np.frombuffer(b"".join(family.encode(s, i % 5) for i, s in enumerate(seeds)), np.uint8)
    counts = np.zeros(9001, np.int64)
    family.add_support(payloads.reshape(6, -1), counts)
    for value in [*range(4090, 4102), *range(8188, 8196), 0, 9000]:
        expected = sum(affine_hash(s % 2**64, s >> 64, value, 5) == i % 5 for i, s in enumerate(seeds))
        assert counts[value] == expected


@pytest.mark.parametrize("g", [2, 3, 256, 257, 65535, 65536])
def test_a_report_supports_the_value_of_its_symbol(g: int) -> None:
    family = AffineFamily(g, 40)
    draw = random.Random(g)
    # With c = the first or last word of a symbol, value 0 lies on its edge.
    edges = [-(-y * 2**32 // g) for y in (0, 1, g - 1)]
    words = [(lower % 2**32) << 32 for lower in edges] + [((lower - 1) % 2**32) << 32 for lower in edges]
    seeds = [draw.getrandbits(64) | 1 << 63 | c << 64 for c in words]
    seeds += [draw.getrandbits(128) for _ in range(700)]
    for value in (0, 1, 39):
        rows = [family.encode(s, affine_hash(s % 2**64, s >> 64, value, g)) for s in seeds]
        payloads = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
        counts = np.zeros(40, np.int64)
        family.add_support(payloads, counts)
        assert counts[value] == len(seeds)
        if g > 256:
            assert np.delete(counts, value).max() < len(seeds) // 2


@pytest.mark.parametrize("g", [2, 3, 5, 300, 65536])
def test_affine_hash_equals_reference(g: int) -> None:
    family = AffineFamily(g, 1 << 24)
    draw = random.Random(g)
    edge = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    # The smallest multipliers are no device's (tests/ldpbeam/channels/test_degenerate.py).
    steps = [2**13, 2**32 - 1, 2**32, 2**63, 2**64 - 2**13]
    pairs = [
        *product(steps, edge),
        *((draw.getrandbits(64), draw.getrandbits(64)) for _ in range(50)),
    ]
    for a, c in pairs:
        for value in (0, 1, 77, (1 << 24) - 1):
            expected = affine_hash(a, c, value, g)
            assert 0 <= expected < g
            assert family.hash(family.seed([a, c]), value) == expected
            columns = family.seed_columns(np.array([[a, c]], np.uint64))
            assert family.hash_many(columns, np.array([value]))[0] == expected
            assert family.decode(family.encode(family.seed([a, c]), expected)) == (
                a | c << 64,
                expected,
            )


@pytest.mark.parametrize("g", [2, 3, 5, 7, 16])
def test_affine_collisions_in_small_words(g: int) -> None:
    bits, half = 10, 32
    a = np.arange(1 << bits, dtype=np.int64)[:, None]
    c = np.arange(1 << bits, dtype=np.int64)[None, :]

    def hashed(value: int) -> np.ndarray:
        return (((a * value + c) % (1 << bits)) >> (bits // 2)) * g >> (bits // 2)

    low, more = divmod(half, g)
    expected = Fraction(more * (low + 1) ** 2 + (g - more) * low**2, half**2)
    for v, w in [(0, 1), (1, 2), (0, 16), (8, 24), (5, 31), (15, 31)]:
        same = int(np.count_nonzero(hashed(v) == hashed(w)))
        assert Fraction(same, 1 << 2 * bits) == expected
    # The real family states the same formula at 64 bits.
    low, more = divmod(1 << 32, g)
    stated = Fraction(more * (low + 1) ** 2 + (g - more) * low**2, 1 << 64)
    assert AffineFamily(g, 100).collision == stated


@pytest.mark.parametrize(
    "g,size",
    [(2, 2), (2, 3), (2, 16), (3, 3), (3, 9), (3, 10), (3, 100), (5, 26), (7, 50), (11, 11), (13, 60)],
)
def test_linear_transform_and_hash_equal_reference(g: int, size: int) -> None:
    family = LinearFamily(g, size)
    draw = np.random.default_rng(g * size)
    counts = draw.integers(-50, 10**6, family.counts_length)
    table = np.zeros((family.points, g), np.int64)
    table[1:] = counts.reshape(-1, g)
    assert family.support_counts(counts).tolist() == linear_transform(table.tolist(), g, size)
    values = np.arange(size)
    for seed in {1, g - 1, family.points // 2, family.points - 1}:
        expected = [linear_hash(seed, v, g, family.digits) for v in range(size)]
        assert [family.hash(seed, v) for v in range(size)] == expected
        assert family.hash_many(np.full(size, seed, np.uint64), values).tolist() == expected


def test_linear_seeds_are_exactly_uniform() -> None:
    for g, size in [(2, 3), (3, 50), (5, 126), (7, 1000)]:
        family = LinearFamily(g, size)
        assert family.word_limit % (family.points - 1) == 0
        assert {family.seed([w]) for w in range(family.points - 1)} == set(family.seeds())
        assert family.seed([family.word_limit - 1]) == family.points - 1


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 3.5])
def test_the_optimal_prime_is_the_best_of_all_primes(epsilon: float) -> None:
    from math import exp

    primes = [g for g in range(2, 4097) if is_prime(g)]
    for size in (2, 3, 8, 16, 32, 100, 360, 1412, 5000):

        def variance(g: int, size: int = size) -> float:
            points = g
            while points < size:
                points *= g
            own = exp(epsilon) / (exp(epsilon) + g - 1)
            collision = (points // g - 1) / (points - 1)
            other = collision * own + (1 - collision) * (1 - own) / (g - 1)
            return other * (1 - other) / (own - other) ** 2

        feasible = [g for g in primes if _cells(g, size) <= 1 << 28]
        best = min(variance(g) for g in feasible)
        assert variance(optimal_prime(size, epsilon)) <= best * (1 + 1e-12)


@pytest.mark.parametrize(
    ("size", "epsilon", "best"),
    [
        # Far above e^ε + 1, where a prime as large as the domain needs one digit only.
        (360, 5.0, 367),
        (1000, 6.0, 1009),
        (2401, 7.0, 2411),
        # Beyond e^ε + 3 without being the root of the domain: the best by 14 to 16 percent.
        (7_086_658, 2.1358, 11),
        (6_032_956, 2.18, 11),
        # The largest primes that are looked at.
        (3461, 7.3925, 3461),
        (4048, 7.5801, 4049),
        (4093, 8.3, 4093),
    ],
)
def test_the_optimal_prime_is_sought_far_enough(size: int, epsilon: float, best: int) -> None:
    assert optimal_prime(size, epsilon) == best


def _cells(g: int, size: int) -> int:
    points = g
    while points < size:
        points *= g
    return (points - 1) * g


@pytest.mark.parametrize("size,epsilon", [(1 << 20, 4.0), (10**6, 3.0), (1 << 24, 4.0), (1 << 24, 32.0)])
def test_the_optimal_prime_fits_the_table(size: int, epsilon: float) -> None:
    LinearFamily(optimal_prime(size, epsilon), size)


@pytest.mark.parametrize("g", [2, 3, 5, 7, 11, 255, 256, 257, 1000, 65_535, 65_536])
def test_affine_counting_agrees_at_the_edges_of_symbols(g: int) -> None:
    family = AffineFamily(g, 3)
    borders = sorted({*range(min(g, 20)), *range(max(g - 20, 0), g)})
    edges = {(-(-(y << 32) // g) + step) % (1 << 32) for y in borders for step in (-1, 0, 1)}
    for high in sorted(edges):
        for low in (0, (1 << 32) - 1):
            # Steps of one half-word up and down, and none: values 0, 1, 2 lie around the border.
            for a in (0, 1 << 32, (1 << 64) - (1 << 32), 1, (1 << 64) - 1):
                seed = a | (high << 32 | low) << 64
                expected = [affine_hash(a, high << 32 | low, v, g) for v in range(3)]
                for symbol in set(expected) | {(s + 1) % g for s in expected}:
                    payload = np.frombuffer(family.encode(seed, symbol), np.uint8)[None]
                    counts = np.zeros(3, np.int64)
                    family.add_support(payload, counts)
                    assert counts.tolist() == [int(s == symbol) for s in expected], (high, low, a, symbol)


def test_the_largest_hashes_that_are_allowed() -> None:
    AffineFamily(1 << 16, 3)
    for g in (1, (1 << 16) + 1):
        with pytest.raises(CollectionError, match=r"2 \.\. 65536"):
            AffineFamily(g, 3)
    # 2**28 cells: 16381² − 16381 fit, the next prime's do not.
    assert LinearFamily(16381, 16381).counts_length == 16380 * 16381 <= 1 << 28
    assert (1 << 28) < 16410 * 16411
    with pytest.raises(CollectionError, match=r"2\*\*28"):
        LinearFamily(16411, 16411)


def test_seeds_are_not_an_identifier_but_separate_every_pair() -> None:
    family = LinearFamily(3, 20)
    for v, w in combinations(range(20), 2):
        assert any(family.hash(s, v) != family.hash(s, w) for s in family.seeds())


@pytest.mark.parametrize("size", [2, 5, 64, 5000, 1 << 15])
def test_the_transform_of_signs_is_the_general_one(size: int) -> None:
    family = LinearFamily(2, size)
    counts = np.random.default_rng(size).integers(0, 1 << 40, family.counts_length)
    assert np.array_equal(family.support_counts(counts), general_transform(family, counts))


def general_transform(family: LinearFamily, counts: np.ndarray) -> np.ndarray:
    """C(v) = Σ_s T[s, ⟨s, v⟩], one digit after the other, over all seeds and all of the table in Python."""
    g, places = family.g, family.digits
    table = np.zeros((family.points, g), np.int64)
    table[1:] = counts.reshape(-1, g)
    # Axes: digits of s from the highest to the lowest, then y; each digit in turn becomes one of v.
    table = table.reshape((g,) * places + (g,))
    for axis in range(places):
        rows = np.moveaxis(table, axis, 0)
        turned = [sum(np.roll(rows[s], -s * v, axis=-1) for s in range(g)) for v in range(g)]
        table = np.moveaxis(np.array(turned), 0, axis)
    return table[..., 0].reshape(-1)[: family.domain_size]


@pytest.mark.parametrize(
    ("g", "size"),
    [
        (2, 3000),
        (3, 2187),
        (3, 2188),
        (3, 1 << 19),
        (5, 4000),
        (7, 20_000),
        (11, 15_000),
        (23, 600),
        (37, 140),
    ],
)
def test_the_transform_in_rows_and_blocks_is_the_general_one(g: int, size: int) -> None:
    family = LinearFamily(g, size)
    most = (1 << 62) // family.points
    counts = np.random.default_rng(size).integers(-most, most, family.counts_length)
    kept = counts.copy()
    found = family.support_counts(counts)
    assert found.flags.c_contiguous
    assert found.dtype == np.int64
    assert np.array_equal(found, general_transform(family, counts))
    assert np.array_equal(counts, kept)


@pytest.mark.parametrize(("g", "size"), [(2, 1 << 18), (3, 200_000)])
@pytest.mark.parametrize("n", [1 << 17, (1 << 21) + 5])
def test_increments_in_order_are_those_in_any_order(g: int, size: int, n: int) -> None:
    family = LinearFamily(g, size)
    draw = np.random.default_rng(n)
    cells = draw.integers(0, family.counts_length, n)
    cells[:2] = 0, family.counts_length - 1
    payloads = cells.astype("<u8").view(np.uint8).reshape(n, 8)[:, : family.payload_bits + 7 >> 3]
    counts = draw.integers(0, 9, family.counts_length)
    expected = counts + np.bincount(cells, minlength=family.counts_length)
    family.add_support(read_only(payloads), counts)
    assert np.array_equal(counts, expected)


# --- stretches of values


@pytest.mark.parametrize(
    ("g", "size"), [(2, 2), (2, 3), (3, 3), (3, 4), (5, 12), (4, 64), (16, 360), (64, 64), (64, 100)]
)
def test_runs_and_hashes_equal_reference(g: int, size: int) -> None:
    family = IntervalFamily(g, size)
    bounds = family.bounds()
    assert bounds.tolist() == [[0, *cuts(seed, g, size), size] for seed in family.seeds()]
    assert (np.diff(bounds, axis=1) >= 0).all()
    hashed = []
    for seed, row in zip(family.seeds(), bounds.tolist(), strict=True):
        expected = [sum(cut <= v for cut in row[1:-1]) for v in range(size)]
        hashed.append(expected)
        assert [family.hash(seed, v) for v in range(size)] == expected
        assert family.hash_many(np.full(size, seed, np.uint64), np.arange(size)).tolist() == expected
        # Every function separates the first value from the last.
        assert (expected[0], expected[-1]) == (0, g - 1)
    counts = np.random.default_rng(g * size).integers(-50, 10**12, family.counts_length)
    table = counts.reshape(64, g)
    supported = [sum(int(table[s, row[v]]) for s, row in enumerate(hashed)) for v in range(size)]
    assert family.support_counts(counts).tolist() == supported


@pytest.mark.parametrize(("g", "size"), [(2, 2), (2, 7), (3, 3), (3, 9), (4, 33), (7, 20)])
def test_pairs_collide_as_often_as_functions_say(g: int, size: int) -> None:
    family = IntervalFamily(g, size)
    hashed = [[interval_hash(seed, v, g, size) for v in range(size)] for seed in range(64)]
    for v, w in product(range(size), repeat=2):
        same = Fraction(sum(row[v] == row[w] for row in hashed), 64)
        assert family.collides(v, w) == same
        assert family.least_collision <= same
    assert family.least_collision == family.collides(0, size - 1)
    numbers = [len(set(row)) for row in hashed]
    assert family.reached == {n: numbers.count(n) / 64 for n in set(numbers)}


def test_as_many_runs_as_values_is_randomised_response() -> None:
    for size in (2, 3, 10, 64):
        assert IntervalFamily(size, size).bounds().tolist() == [list(range(size + 1))] * 64
    for g in (1, 4, 65):
        with pytest.raises(CollectionError, match="the numbers of stretches"):
            IntervalFamily(g, 3 if g == 4 else 100)


def test_cuts_are_everywhere_as_often_and_independent_of_each_other() -> None:
    g, part = 17, 64
    bounds = IntervalFamily(g, 16 * part + 1).bounds()[:, 1:-1]
    offsets = bounds - 1 - part * np.arange(g - 1)
    assert (np.sort(offsets, axis=0) == np.arange(part)[:, None]).all()
    for first, second in zip(offsets.T, offsets.T[1:], strict=False):
        boxes = np.zeros((8, 8), int)
        np.add.at(boxes, (first // 8, second // 8), 1)
        assert boxes.max() <= 4
        assert (boxes[::2, ::2] + boxes[1::2, ::2] + boxes[::2, 1::2] + boxes[1::2, 1::2]).min() >= 2


@pytest.mark.parametrize(
    ("size", "epsilon", "best"),
    [(360, 0.5, 3), (360, 1.0, 4), (360, 2.0, 6), (360, 4.0, 19), (64, 4.0, 19), (1024, 1.0, 4)],
)
@pytest.mark.cases(2)
def test_the_optimal_number_of_runs_tells_most(size: int, epsilon: float, best: int) -> None:
    def information(g: int) -> float:
        own = np.exp(epsilon) / (np.exp(epsilon) + g - 1)
        lengths = np.diff(IntervalFamily(g, size).bounds(), axis=1)
        other = (1 - own) / (g - 1)
        told = lengths / size * own + (1 - lengths / size) * other
        given = own * np.log(own) + (g - 1) * other * np.log(other)
        return float(given - (told * np.log(told)).sum(axis=1).mean())

    found = optimal_stretches(size, epsilon)
    assert information(found) == pytest.approx(max(information(g) for g in range(2, 33)))
    assert found == best


def test_functions_are_drawn_uniformly_and_audits_look_at_all_of_them() -> None:
    family = IntervalFamily(3, 20)
    assert family.word_limit == 1 << 64
    assert family.word_limit % family.functions == 0
    assert [family.seed([word]) for word in range(128)] == 2 * list(family.seeds())
    found = [(there, share) for _, there, share in family.seed_events()]
    for there, share in found:
        assert Fraction(sum(map(there, family.seeds())), family.functions) == share
    assert [sum(there(seed) for there, _ in found) for seed in family.seeds()] == [1] * family.functions
