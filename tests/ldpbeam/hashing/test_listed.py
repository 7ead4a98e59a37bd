"""The listed family: the public list, looks at its table, and collisions of fingerprints."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from ldpbeam.errors import CollectionError, Reason
from ldpbeam.hashing.listed import FINGERPRINTS, ListedFamily, public_word
from tests.reference.counting import affine_hash

SETTINGS = [(2, 1 << 10), (3, 1 << 10), (16, 1 << 12), (17, 1 << 12), (256, 1 << 16)]
ENDS = (0, 1, (1 << 31) - 1, 1 << 31, FINGERPRINTS - 1)


def fingerprints(n: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(0, FINGERPRINTS, n, dtype=np.uint32)
    drawn[: len(ENDS)] = ENDS
    return drawn


def test_the_list_is_the_published_splitmix64() -> None:
    first = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert [public_word(index) for index in range(4)] == first
    family = ListedFamily(5, FINGERPRINTS)
    for seed in (0, 1, 4095):
        a, c = public_word(2 * seed), public_word(2 * seed + 1)
        assert [words[seed] for words in family.words()] == [a, c]
        assert [family.hash(seed, v) for v in ENDS] == [affine_hash(a, c, v, 5) for v in ENDS]
    # A shorter list is the beginning of a longer one.
    assert ListedFamily(5, 9, 1 << 10).words()[0].tolist() == family.words()[0][: 1 << 10].tolist()


@pytest.mark.parametrize(("g", "functions"), SETTINGS)
def test_array_methods_are_the_single_ones(g: int, functions: int) -> None:
    family = ListedFamily(g, FINGERPRINTS, functions)
    values = fingerprints(300, g).astype(np.int64)
    words = np.random.default_rng(g).integers(0, 1 << 64, (300, 1), dtype=np.uint64)
    words[:3, 0] = 0, functions - 1, (1 << 64) - 1
    seeds = family.seed_columns(words)
    assert seeds.tolist() == [family.seed([word]) for word in words[:, 0].tolist()]
    symbols = family.hash_many(seeds, values)
    pairs = list(zip(seeds.tolist(), symbols.tolist(), strict=True))
    assert [(s, family.hash(s, v)) for (s, _), v in zip(pairs, values.tolist(), strict=True)] == pairs
    payloads = family.pack(seeds, symbols)
    assert payloads.shape[1] == family.payload_bits + 7 >> 3 <= 3
    assert [row.tobytes() for row in payloads] == [family.encode(*pair) for pair in pairs]
    assert [family.decode(row.tobytes()) for row in payloads] == pairs
    assert not family.check(payloads).any()
    if family.counts_length < 256 ** payloads.shape[1]:
        outside = family.counts_length.to_bytes(payloads.shape[1], "little")
        assert family.decode(outside) == Reason.VALUE_OUT_OF_RANGE
        assert family.check(np.frombuffer(outside, np.uint8)[None]).all()


@pytest.mark.parametrize(("g", "functions"), SETTINGS[:-1])
def test_support_is_a_look_at_each_function(g: int, functions: int) -> None:
    family = ListedFamily(g, FINGERPRINTS, functions)
    counts = np.random.default_rng(g).integers(-50, 1 << 40, family.counts_length)
    # More than are looked at together, so that a last piece is shorter.
    values = fingerprints(1030, functions)
    found = family.support_of(counts, values)
    table = counts.reshape(functions, g).tolist()
    for i in (0, 3, 4, 511, 512, 1029):
        assert found[i] == sum(row[family.hash(f, int(values[i]))] for f, row in enumerate(table))
    small = ListedFamily(g, 40, functions)
    assert np.array_equal(
        small.support_counts(counts), family.support_of(counts, np.arange(40, dtype=np.uint32))
    )


def test_pairs_collide_as_often_as_functions_say() -> None:
    family = ListedFamily(3, 9, 1 << 10)
    hashed = [[family.hash(seed, v) for v in range(9)] for seed in family.seeds()]
    assert len(hashed) == family.functions == family.classes
    for v, w in combinations(range(9), 2):
        same = Fraction(sum(row[v] == row[w] for row in hashed), len(hashed))
        assert family.collides(v, w) == same >= family.least_collision
    assert family.collides(4, 4) == 1
    assert max(len(set(row)) for row in hashed) <= max(family.reached)
    assert ListedFamily(9, 4).reached == {4: 1.0}


@pytest.mark.parametrize(("g", "functions"), [(2, 1 << 12), (8, 1 << 12), (57, 1 << 10)])
def test_fingerprints_collide_as_under_independent_functions(g: int, functions: int) -> None:
    """Of 200 random fingerprints (always the same ones) as if each function drew each symbol anew."""
    family = ListedFamily(g, FINGERPRINTS, functions)
    values = fingerprints(200, 11).astype(np.int64)
    seeds = np.arange(functions, dtype=np.uint64)
    symbols = np.array([family.hash_many(seeds, np.full(functions, v)) for v in values])
    shares = np.array([(symbols[:i] == symbols[i]).mean(axis=1) for i in range(1, 200)], object)
    apart = (np.concatenate(shares) - 1 / g) / np.sqrt((g - 1) / functions) * g
    # 19,900 pairs, each with mean 0 and variance 1; without the list's randomness they would be far off.
    assert abs(apart.mean()) < 0.03
    assert abs(apart.var() - 1) < 0.05
    assert np.abs(apart).max() < 5.5
    # Symbols of one fingerprint under neighbouring functions, and of all under one function.
    assert abs((symbols[:, 1:] == symbols[:, :-1]).mean() - 1 / g) < 0.003
    each = symbols.size / g
    assert np.abs(np.bincount(symbols.ravel(), minlength=g) - each).max() < 4.5 * np.sqrt(each)


def test_functions_are_drawn_uniformly_and_audits_look_at_all_of_them() -> None:
    family = ListedFamily(3, 20, 1 << 10)
    assert family.word_limit == 1 << 64
    assert [family.seed([word]) for word in range(2 << 10)] == 2 * list(family.seeds())
    for _, there, share in (found := list(family.seed_events())):
        assert Fraction(sum(map(there, family.seeds())), family.functions) == share
    assert all(sum(there(seed) for _, there, _ in found) == 1 for seed in family.seeds())


@pytest.mark.parametrize(
    ("g", "size", "functions", "named"),
    [
        (1, 9, 1 << 12, "g = 1"),
        (4097, 9, 1 << 12, r"2 \.\. 4096"),
        (2, 9, 1 << 9, "power of two"),
        (2, 9, 1 << 17, "power of two"),
        (2, 9, 3 << 10, "power of two"),
        (2, 1, 1 << 12, "1 values"),
        (2, FINGERPRINTS + 1, 1 << 12, "fingerprints|32"),
    ],
)
def test_what_the_list_does_not_offer_is_refused(g: int, size: int, functions: int, named: str) -> None:
    ListedFamily(4096, FINGERPRINTS, 1 << 12)
    with pytest.raises(CollectionError, match=named):
        ListedFamily(g, size, functions)
