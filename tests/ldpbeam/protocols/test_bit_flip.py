"""Bit-flip protocols and deployed RAPPOR: exact where enumeration can be, sampled where it must be.

What every protocol obeys is in tests/laws; here stands what is particular to these.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from math import comb, exp, log, prod, sinh
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, norm

from ldpbeam.arrays import read_only
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import CollectionError, InvalidPayload
from ldpbeam.estimates import variance
from ldpbeam.kernels import bit_flip as kernels
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols import FrequencyProtocol, Memo, Parameters, protocol
from ldpbeam.protocols import bit_flip as protocols
from ldpbeam.protocols.bit_flip import BitFlip, BucketBits
from ldpbeam.protocols.public_string import BinFlipPlus
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from tests.conftest import FALSE_ALARM_SUITE, REPOSITORY
from tests.reference.channels import cuts_of, outcomes, worst_ratio
from tests.reference.script import ScriptedRandomness

FALSE_ALARM = 1e-8
"""Probability that a sound program fails one statistical test of this file."""
assert FALSE_ALARM <= FALSE_ALARM_SUITE

PM = "dbitflip_pm"
KERNELS: tuple[Any, ...] = (
    kernels.find_wrong,
    kernels.check_entries,
    kernels.add_entries,
    kernels.add_many_entries,
    kernels.widen,
)


def build(name: str, b: int, epsilon: float = 1.0, d: int | None = None, **more: Any) -> Any:
    level = "epsilon_longitudinal" if name in (PM, "rappor") else "epsilon"
    return protocol(name, b, Parameters(**{level: epsilon}, d=d, **more))  # type: ignore[arg-type]


# Sampling


@pytest.mark.parametrize("b,d", [(2, 1), (3, 2), (4, 1), (4, 2), (4, 3), (5, 2)])
def test_every_set_is_sampled_equally_often(b: int, d: int) -> None:
    """Over every run of the shuffle, each of C(b, d) sets comes d! times, in scalar and array code."""
    built = build("dbitflip", b, d=d)
    # The first and the last word of every place.
    edges = [[-(-(j << 64) // (b - i)) for j in range(b - i)] for i in range(d)]
    ends = [[(-(-((j + 1) << 64) // (b - i))) - 1 for j in range(b - i)] for i in range(d)]
    for bounds in (edges, ends):
        words = list(product(*bounds))
        found = [built.device._sample(ScriptedRandomness(w)) for w in words]
        times = prod(range(1, d + 1))
        assert Counter(found) == Counter(dict.fromkeys(combinations(range(b), d), times))
        sets = kernels.sample(np.array(words, np.uint64), b)
        assert list(map(tuple, sets.tolist())) == found


def test_large_domains_are_sampled_alike_in_scalar_and_array_code() -> None:
    """Words at their limits and domains beyond 2**16, where a half-word product would differ."""
    b, d = (1 << 24) - 3, 3
    built = build("dbitflip", b, d=d)
    draw = np.random.default_rng(1)
    words = draw.integers(0, FULL - 1, (200, d), np.uint64, endpoint=True)
    words[:4] = [[0, 0, 0], [FULL - 1] * 3, [FULL - 1, 0, FULL - 1], [1 << 63, 1 << 32, (1 << 32) - 1]]
    sets = kernels.sample(words, b)
    for row, drawn in zip(words.tolist(), sets.tolist(), strict=True):
        assert built.device._sample(ScriptedRandomness(row)) == tuple(drawn)
        assert built.device.sampled_set(BucketBits(tuple(drawn), 0).seed) == tuple(drawn)


# Exact channels


@pytest.mark.parametrize("b,d", [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3)])
@pytest.mark.parametrize("name", ["dbitflip", PM])
def test_devices_send_the_stated_distribution(name: str, b: int, d: int) -> None:
    """All sets, all bits, all values, by running the device over every word it could draw."""
    built = build(name, b, d=d)
    for indices in combinations(range(b), d):
        seed = BucketBits(indices, 0).seed
        # The words whose shuffle ends in this set, in its own order.
        words = next(
            w
            for w in product(*[[-(-(j << 64) // (b - i)) for j in range(b - i)] for i in range(d)])
            if tuple(sorted(_shuffled(w, b))) == indices
        )
        rows = []
        for value in range(b):

            def run(branch: Any, value: int = value, words: Any = words, seed: int = seed) -> Any:
                if name == PM:
                    return built.device.privatize(value, Memo(seed), branch)[0]
                script = iter(() if d == b else words)

                class Chained(Randomness):
                    def word(self, limit: int = FULL) -> int:
                        word = next(script, None)
                        return branch.word(limit) if word is None else word

                return built.device.privatize(value, Memo(), Chained())[0]

            found = outcomes(run, cuts_of(built))
            assert set(found) == {BucketBits(indices, bits) for bits in range(1 << d)}
            for response, probability in found.items():
                expected = Fraction(1)
                for i, index in enumerate(indices):
                    one = built.channel.one if index == value else built.channel.zero
                    expected *= Fraction(one if response.bits >> i & 1 else FULL - one, FULL)
                assert probability == expected == built.law.likelihood(response, value)
            rows.append([found[BucketBits(indices, bits)] for bits in range(1 << d)])
        # Whatever the set is, no report spends more than the guarantee, and some set spends it.
        assert worst_ratio(rows) == built.guarantee.first_ratio


def _shuffled(words: tuple[int, ...], b: int) -> list[int]:
    deck = list(range(b))
    for i, word in enumerate(words):
        j = i + (word * (b - i) >> 64)
        deck[i], deck[j] = deck[j], deck[i]
    return deck[: len(words)]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
def test_one_bit_spends_half_of_the_nominal_level(epsilon: float) -> None:
    """d = 1: ε/2, the papers' choice; from two bits on ε; a lifetime is min(d+1, b) times as much."""
    for d, spent in ((1, epsilon / 2), (2, epsilon), (5, epsilon), (6, epsilon)):
        assert build("dbitflip", 6, epsilon, d).guarantee.first_report == pytest.approx(spent, rel=1e-12)
        for_life = build(PM, 6, epsilon, d).guarantee
        assert for_life.per_memoised_input == for_life.first_report
        assert for_life.memoised_inputs == min(d + 1, 6)
        assert for_life.cap_over_inputs == pytest.approx(min(d + 1, 6) * spent, rel=1e-12)


@pytest.mark.parametrize("b,d", [(2, 1), (3, 1), (3, 2), (4, 1)])
def test_the_cap_over_values_holds_for_sequences_that_change_together(b: int, d: int) -> None:
    """Every pair of sequences that visit values in the same pattern: worst ratio of all reports together.

    A sequence through all values shows every memoised answer once; two of them, of the same pattern,
    differ by at most the product of what each memoised input can tell.
    """
    built = build(PM, b, 2.0, d)
    guarantee = built.guarantee
    for indices in combinations(range(b), d):
        rows: dict[tuple[int, ...], list[dict[Any, Fraction]]] = {}
        for order in permutations(range(b)):
            joint: dict[Any, Fraction] = {}
            for answers in product(range(1 << d), repeat=guarantee.memoised_inputs):
                weight = prod(
                    (built.law.likelihood(BucketBits(indices, a), _holder(indices, key, b)))
                    for key, a in enumerate(answers)
                )
                shown = tuple(answers[built.device.memo_key(indices, v)] for v in order)
                joint[shown] = joint.get(shown, Fraction(0)) + weight
            pattern = tuple(
                [built.device.memo_key(indices, v) for v in order].index(built.device.memo_key(indices, w))
                for w in order
            )
            rows.setdefault(pattern, []).append(joint)
        for same in rows.values():
            for one, two in combinations(same, 2):
                worst = max(one[s] / two[s] for s in one)
                assert worst <= guarantee.memoised_ratio**guarantee.memoised_inputs


def _holder(indices: tuple[int, ...], key: int, b: int) -> int:
    """A value memoised under the key."""
    if key < len(indices):
        return indices[key]
    return next(v for v in range(b) if v not in indices)


def test_values_that_were_not_sampled_share_their_answer() -> None:
    """The memo has one entry for all of them; later draws, here of other bits, change nothing."""
    built = build(PM, 9, d=2)
    memo = Memo(BucketBits((2, 7), 0).seed)
    first, memo = built.device.privatize(0, memo, ScriptedRandomness([0, FULL - 1]))
    assert first == BucketBits((2, 7), 1)
    for value in (1, 3, 4, 5, 6, 8):
        words = ScriptedRandomness([FULL - 1, 0])
        again, kept = built.device.privatize(value, memo, words)
        assert words.exhausted()
        assert again == first
        assert kept is memo
    _, memo = built.device.privatize(7, memo, ScriptedRandomness([5, 5]))
    assert dict(memo.answers) == {2: 1, 1: 3}
    with pytest.raises(ValueError, match="new_memo"):
        built.device.privatize(0, Memo(), ScriptedRandomness([]))


def test_binflip_is_dbitflip_with_every_bucket_and_sends_sue_s_bits() -> None:
    words = [(i * 0x9E3779B97F4A7C15) % FULL for i in range(11)]
    flip, all_of_it, sue = build("binflip", 11), build("dbitflip", 11, d=11), build("sue", 11)
    for value in range(11):
        sent = {
            k.device.encode(k.device.privatize(value, Memo(), ScriptedRandomness(words))[0])
            for k in (flip, all_of_it, sue)
        }
        assert len(sent) == 1
    assert flip.guarantee == all_of_it.guarantee == sue.guarantee
    assert flip.estimator.support == sue.estimator.support
    assert flip.device.payload_bits == sue.device.payload_bits == 11


# Payloads


def test_entries_are_index_and_bit_in_ascending_order() -> None:
    """The bytes of `docs/bit-flip.md`: 2·index + bit, little-endian, two bytes from 129 buckets on."""
    assert build("dbitflip", 128, d=2).device.encode(BucketBits((3, 127), 2)) == bytes([6, 255])
    assert build("dbitflip", 129, d=2).device.encode(BucketBits((3, 128), 1)) == bytes([7, 0, 0, 1])
    assert build("dbitflip", 1 << 15, d=1).device.payload_size == 2
    assert build("dbitflip", (1 << 15) + 1, d=1).device.payload_size == 3
    assert build("dbitflip", 10, d=10).device.encode(BucketBits(tuple(range(10)), 0x201)) == bytes([1, 2])


@pytest.mark.parametrize(
    "entries,reason",
    [
        ([0, 2, 4], None),
        ([1, 3, 19], None),
        ([0, 2, 20], "value_out_of_range"),
        ([255, 2, 4], "value_out_of_range"),
        ([2, 2, 4], "repeated_index"),
        ([2, 3, 4], "repeated_index"),
        ([4, 2, 6], "repeated_index"),
        ([4, 2, 60], "repeated_index"),
        ([4, 60, 2], "value_out_of_range"),
        ([0, 0, 0], "repeated_index"),
    ],
)
def test_unsound_entries_are_refused_with_their_reason(entries: list[int], reason: str | None) -> None:
    """The first broken rule decides, in both validations."""
    built = build("dbitflip", 10, d=3)
    payload = bytes(entries)
    code = built.counter.check(np.frombuffer(payload, np.uint8)[None, :])[0]
    if reason is None:
        assert code == 0
        assert built.device.encode(built.device.decode(payload)) == payload
        return
    assert CheckCode(code).reason.value == reason  # type: ignore[union-attr]
    with pytest.raises(InvalidPayload) as caught:
        built.device.decode(payload)
    assert caught.value.reason.value == reason


def test_every_payload_of_two_entries_agrees_in_both_validations() -> None:
    built = build("dbitflip", 9, d=2)
    payloads = np.arange(1 << 16, dtype="<u2").view(np.uint8).reshape(-1, 2)
    codes = built.counter.check(payloads)
    assert Counter(codes.tolist())[0] == comb(9, 2) * 4
    for code, row in zip(codes[:5000].tolist(), payloads[:5000], strict=True):
        try:
            built.device.decode(row.tobytes())
            assert code == 0
        except InvalidPayload as error:
            assert CheckCode(code).reason is error.reason


def entries_of(built: Any, n: int, seed: int) -> Any:
    """Sound entries, int64 (n, d), of every number of ones that is admitted, the least and the most too."""
    draw = np.random.default_rng(seed)
    least, most = built.counter.bits.ones
    ones = np.clip(draw.integers(least - 1, most + 2, n), least, most)
    entries = np.empty((n, built.d), np.int64)
    for row, count in zip(entries, ones.tolist(), strict=True):
        # One in each of d parts where buckets are many, since a draw without replacement takes a deck of all.
        part = built.domain_size // built.d
        chosen = part * np.arange(built.d) + draw.integers(0, part, built.d)
        few = built.domain_size < 1000
        row[:] = 2 * np.sort(draw.choice(built.domain_size, built.d, replace=False) if few else chosen)
        row[draw.choice(built.d, count, replace=False)] += 1
    return entries


def payloads_of(built: Any, entries: Any) -> Any:
    """The bytes of entries that fit, one row after the other."""
    n, width = len(entries), built.device.payload_size // built.d
    held = entries.astype("<u8").view(np.uint8).reshape(n, built.d, 8)[..., :width]
    return np.ascontiguousarray(held).reshape(n, built.device.payload_size)


def code_of(built: Any, payload: bytes) -> int:
    """What the decoder of one report says."""
    try:
        built.device.decode(payload)
    except InvalidPayload as error:
        return int(CheckCode[error.reason.name])
    return 0


def faults(built: Any, row: Any) -> list[Any]:
    """Copies of a sound row with one fault each, or with none: edges of every rule."""
    d, limit, largest = built.d, 2 * built.domain_size, 256 ** (built.device.payload_size // built.d) - 1
    least, most = built.counter.bits.ones
    found = []
    for i in {0, 1, d // 2, d - 2, d - 1} & set(range(d)):
        for entry in (0, 1, limit - 2, limit - 1, limit, limit + 1, largest):
            found.append((i, entry))
        for other in {i - 1, i + 1} & set(range(d)):
            found += [(i, int(row[other]) + step) for step in (-2, -1, 0, 1, 2)]
    rows = []
    for i, entry in found:
        if 0 <= entry <= largest:
            rows.append(row.copy())
            rows[-1][i] = entry
    for ones in {least - 1, least, most, most + 1, 0, d} & set(range(d + 1)):
        rows.append(row & ~1)
        rows[-1][:ones] += 1
        rows.append(row & ~1)
        rows[-1][d - ones :] += 1
    return rows


CHECKED = [
    *((100, d, 1.0) for d in (1, 2, 3, 15, 16, 17, 99)),
    *((360, d, 1.0) for d in (1, 2, 3, 15, 16, 17)),
    # Not every number of ones is admitted: few of them are too many, or they are too few as well.
    *((b, d, 8.0) for b in (100, 360) for d in (12, 16, 17, 33)),
    *((360, d, 0.5) for d in (64, 65, 359)),
    # The largest index is the largest that fits.
    *((128, d, 1.0) for d in (1, 2, 64)),
    *((1 << 15, d, 1.0) for d in (1, 2, 16)),
    # Longer than what is checked at once.
    (700, 600, 1.0),
    # Entries of three bytes, and of four.
    *((40_000, d, 1.0) for d in (1, 2, 16)),
    *((1 << 24, d, 1.0) for d in (1, 3)),
]


@pytest.mark.cases(12)
@pytest.mark.parametrize("b,d,epsilon", CHECKED)
def test_one_wrong_report_is_found_wherever_it_stands(b: int, d: int, epsilon: float) -> None:
    """In the first and the last report of every piece that is checked at once, and beside them.

    All others are sound, and the one has the code of the decoder, that of the first broken rule.
    """
    built = build("dbitflip", b, epsilon, d)
    piece = max(1, kernels._PIECE // d)
    n = 2 * piece + piece // 3 + 1
    entries = entries_of(built, n, b + d)
    sound = payloads_of(built, entries)
    codes = np.zeros(n, np.uint8)
    least, most = built.counter.bits.ones
    assert not kernels.find_wrong(
        built.counter._entries(sound), d, b, least, most, codes
    )  # none is looked at twice
    assert not built.counter.check(sound).any()
    seen: Counter[int] = Counter()
    for r in {0, 1, piece - 1, piece, piece + 1, 2 * piece - 1, 2 * piece, n - 2, n - 1} & set(range(n)):
        for row in faults(built, entries[r]):
            payloads = sound.copy()
            payloads[r] = payloads_of(built, row[None])[0]
            code = code_of(built, payloads[r].tobytes())
            codes = built.counter.check(payloads)
            assert codes.dtype == np.uint8
            assert codes[r] == code, (r, row)
            assert np.count_nonzero(codes) == (code != 0), (r, row)
            seen[code] += 1
    least, most = built.counter.bits.ones
    expected = {CheckCode.SOUND}
    if 2 * b < 256 ** (built.device.payload_size // d):
        expected.add(CheckCode.VALUE_OUT_OF_RANGE)
    if d > 1:
        expected.add(CheckCode.REPEATED_INDEX)
    if least > 0 or most < d:
        expected.add(CheckCode.DEGENERATE)
    assert set(seen) == expected


@pytest.mark.cases(12)
@pytest.mark.parametrize("b,d,epsilon", CHECKED)
def test_many_wrong_reports_have_the_codes_of_the_decoder(b: int, d: int, epsilon: float) -> None:
    """Reports of every fault at random places, beginnings of the whole, and none at all."""
    built = build("dbitflip", b, epsilon, d)
    draw = np.random.default_rng(d)
    entries = entries_of(built, 3 * max(1, kernels._PIECE // d) + 2, b)
    for share in (0.01, 0.5, 1.0):
        rows = entries.copy()
        for r in np.flatnonzero(draw.random(len(rows)) < share):
            choice = faults(built, rows[r])
            rows[r] = choice[draw.integers(len(choice))]
        payloads = payloads_of(built, rows)
        expected = [code_of(built, row.tobytes()) for row in payloads]
        for n in {0, 1, 2, len(rows) // 2, len(rows) - 1, len(rows)}:
            assert built.counter.check(payloads[:n]).tolist() == expected[:n]
            assert built.counter.check(payloads[len(rows) - n :]).tolist() == expected[len(rows) - n :]


@pytest.mark.parametrize("b,d", [(100, 1), (128, 3), (129, 1), (360, 16), (1 << 15, 2), (40_000, 2)])
def test_entries_are_counted_however_many_they_are(b: int, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On both sides of where counting changes its way, in parts, and added to what is there."""
    monkeypatch.setattr(protocols, "_UNTIL_FULL", 1500)
    built = build("dbitflip", b, d=d)
    few = 2 * b + protocols._FEW
    for n in {0, 1, 2 * b // d, few // d - 1, few // d, few // d + 1, 3 * few // d}:
        entries = entries_of(built, min(n, 500), n)
        entries = np.concatenate([entries] * (n // 500) + [entries[: n % 500]])
        if n > 1:
            entries[0, 0], entries[1, -1] = 1, 2 * b - 1
        assert len(entries) == n
        before = np.random.default_rng(n).integers(0, 1 << 40, 2 * b)
        cells = np.bincount(entries.reshape(-1), minlength=2 * b)
        counts = before.copy()
        built.counter.add(read_only(payloads_of(built, entries)), counts)
        assert np.array_equal(counts[:b], before[:b] + cells[1::2])
        assert np.array_equal(counts[b:], before[b:] + cells[::2] + cells[1::2])


@pytest.mark.parametrize("b", [100, 360, 40_000])
def test_one_entry_may_occur_in_every_report(b: int) -> None:
    """More often than cells of one or two bytes could count."""
    built = build("dbitflip", b, d=1)
    n = 200_000
    counts = np.zeros(2 * b, np.int64)
    built.counter.add(payloads_of(built, np.full((n, 1), 2 * b - 1)), counts)
    assert np.flatnonzero(counts).tolist() == [b - 1, 2 * b - 1]
    assert counts[b - 1] == counts[2 * b - 1] == n


@pytest.mark.parametrize("b", [100, 360, 40_000])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_reports_are_read_wherever_they_lie_by_the_same_machine_code(b: int, d: int) -> None:
    """At odd addresses, in every other row or column, backwards, in Fortran's order: no other array type."""
    built = build("dbitflip", b, d=d)
    n, size = 2500, built.device.payload_size
    rows = payloads_of(built, entries_of(built, n, b * d))
    rows[7] = 255
    wide, tall = np.zeros((n, 2 * size + 1), np.uint8), np.zeros((2 * n, size), np.uint8)
    wide[:, ::2][:, :size] = rows
    tall[::2] = rows
    beside = np.zeros((n, size + 3), np.uint8)
    beside[:, 1 : 1 + size] = rows
    forms = [
        np.frombuffer(b"\0" * shift + rows.tobytes(), np.uint8, n * size, shift).reshape(n, size)
        for shift in range(4)
    ]
    forms += [wide[:, ::2][:, :size], tall[::2], beside[:, 1 : 1 + size], rows[::-1].copy()[::-1]]
    forms += [np.asfortranarray(rows)]
    expected = [code_of(built, row.tobytes()) for row in rows]
    codes, counts = built.counter.check(rows), np.zeros(2 * b, np.int64)
    assert codes.tolist() == expected
    for end in (n, 40):
        # Both ways of counting; the unsound report has no part in it.
        counts[:] = 0
        built.counter.add(rows[8:end], counts)
        compiled = [len(k.signatures) for k in KERNELS]
        for form in forms:
            kept = form.copy()
            assert form.shape == rows.shape
            assert built.counter.check(form).tolist() == expected
            found = np.zeros(2 * b, np.int64)
            built.counter.add(form[8:end], found)
            assert np.array_equal(found, counts)
            assert np.array_equal(form, kept)
        assert [len(k.signatures) for k in KERNELS] == compiled
    assert rows.flags.writeable


# Variance


@pytest.mark.parametrize("b,d,epsilon", [(32, 1, 1.0), (32, 4, 0.5), (360, 16, 3.0), (10, 10, 2.0)])
def test_v_star_is_that_of_correction_3_and_not_the_printed_one(b: int, d: int, epsilon: float) -> None:
    """(b/d)/(4 n sinh²(ε/4)); LOLOHA section 4 prints b/(2 d n sinh(ε/2)), which is far off."""
    for name in ("dbitflip", PM):
        support = build(name, b, epsilon, d).estimator.support
        ours = float(support.floor) / float(support.sampled)
        assert ours == pytest.approx((b / d) / (4 * sinh(epsilon / 4) ** 2), rel=1e-12)
        printed = b / (2 * d * sinh(epsilon / 2))
        assert abs(printed / ours - 1) > 0.1


@cache
def reports(name: str, b: int, epsilon: float, d: int | None, runs: int, n: int) -> Any:
    """Estimates of ``runs`` independent epochs with fresh devices: (runs, b), and N of bucket 0.

    Frequencies 0.5, 0.2, 0.3 and then 0. Devices of different runs share nothing.
    """
    built = build(name, b, epsilon, d)
    values = np.repeat(np.array([0, 1, 2], np.int32), [n // 2, n // 5, n - n // 2 - n // 5])
    found = []
    for run in range(runs):
        fleet = ProtocolFleet(built, n, RandomWords(1000 + run))
        counts = np.zeros(built.counter.counts_length, np.int64)
        for batch in fleet.reports(0, values):
            built.counter.add(batch.payloads, counts)
        found.append(built.estimator.estimate(counts, n).frequency)
    return np.array(found)


CASES = [
    ("dbitflip", 8, 2.0, 2),
    (PM, 8, 2.0, 2),
    (PM, 5, 6.0, 1),
    ("binflip", 6, 1.0, None),
    ("binflip_plus", 6, 1.5, None),
]
RUNS, N = 1500, 2000


@pytest.mark.parametrize("name,b,epsilon,d", CASES)
@pytest.mark.thorough
def test_estimates_are_unbiased_with_the_stated_variance(
    name: str, b: int, epsilon: float, d: int | None
) -> None:
    """Mean and variance over 1500 epochs at f = 0.5, 0.2 and 0, a share of the false alarms for each.

    The stated variance takes 1/E[N] for E[1/N]: a relative b/(n d) = 0.0025 at most, which the chi-squared
    limits (about ±25 %) do not see; a wrong formula that forgets (1 − s) f (1 − f) / n is seen where ε is
    large (third case, f = 0.5: 78 % too small).
    """
    built = build(name, b, epsilon, d)
    found = reports(name, b, epsilon, d, RUNS, N)
    share = FALSE_ALARM / (len(CASES) * 3 * 2)
    asked = N * float(built.estimator.support.sampled)
    for bucket, frequency in ((0, 0.5), (1, 0.2), (b - 1, 0.0)):
        stated = float(variance(np.array([frequency]), 1, built.estimator.support)[0]) / asked
        column = found[:, bucket]
        z = (column.mean() - frequency) / (stated / RUNS) ** 0.5
        assert abs(z) < norm.isf(share / 2), (bucket, z)
        ratio = (RUNS - 1) * column.var(ddof=1) / stated
        assert chi2.ppf(share / 2, RUNS - 1) < ratio < chi2.isf(share / 2, RUNS - 1), (bucket, ratio)


@pytest.mark.thorough
def test_the_share_that_was_not_asked_adds_to_the_variance() -> None:
    """Without (1 − s) f (1 − f) / n the stated variance is refused, with the same false-alarm rate."""
    name, b, epsilon, d = CASES[2]
    built = build(name, b, epsilon, d)
    own, other, gap = (
        float(x)
        for x in (built.estimator.support.own, built.estimator.support.other, built.estimator.support.gap)
    )
    spread = (0.5 * own * (1 - own) + 0.5 * other * (1 - other)) / gap**2
    without = spread / (N * d / b)  # type: ignore[operator]
    column = reports(name, b, epsilon, d, RUNS, N)[:, 0]
    ratio = (RUNS - 1) * column.var(ddof=1) / without
    assert ratio > chi2.isf(FALSE_ALARM, RUNS - 1)


@pytest.mark.cases(1)
@pytest.mark.parametrize("name,b,epsilon,d", CASES)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_ten_percent_wrong_level_is_rejected(
    name: str, b: int, epsilon: float, d: int | None, factor: float
) -> None:
    """Devices at ε, a server that believes 0.9 ε or 1.1 ε: the bias at f = 0.5 is seen at once."""
    right, wrong = (
        build(name, b, epsilon, d).estimator.support,
        build(name, b, epsilon * factor, d).estimator.support,
    )
    found = reports(name, b, epsilon, d, RUNS, N)[:, 0] * float(right.gap) + float(right.other)
    believed = (found - float(wrong.other)) / float(wrong.gap)
    stated = float(variance(np.array([0.5]), 1, wrong)[0]) / (N * float(wrong.sampled))
    z = (believed.mean() - 0.5) / (stated / RUNS) ** 0.5
    if right.own + right.other == 1:
        # Symmetric bits: at f = 0.5 the mean is 1/2 whatever the level; the bias shows at f = 0.
        found = reports(name, b, epsilon, d, RUNS, N)[:, b - 1] * float(right.gap) + float(right.other)
        believed = (found - float(wrong.other)) / float(wrong.gap)
        stated = float(variance(np.array([0.0]), 1, wrong)[0]) / (N * float(wrong.sampled))
        z = believed.mean() / (stated / RUNS) ** 0.5
    assert abs(z) > norm.isf(FALSE_ALARM / (2 * len(CASES) * 3 * 2))


@pytest.mark.parametrize("b,d", [(3, 1), (3, 2), (4, 2)])
def test_given_who_was_asked_the_estimate_is_exactly_unbiased(b: int, d: int) -> None:
    """E[C(v) | N(v) and which holders were asked] debiased is the frequency among those asked, exactly."""
    built = build("dbitflip", b, d=d)
    for value in range(b):
        for held in range(b):
            for indices in combinations(range(b), d):
                one = sum(
                    built.law.likelihood(BucketBits(indices, bits), held)
                    for bits in range(1 << d)
                    if built.law.supports(BucketBits(indices, bits), value)
                )
                expected = built.estimator.support.own if held == value else built.estimator.support.other
                assert one == (expected if value in indices else 0)


def test_a_bucket_that_nobody_sampled_has_no_estimate() -> None:
    """NaN, not zero and not a division by zero; the others are estimated."""
    built = build("dbitflip", 5, d=1)
    counts = np.zeros(10, np.int64)
    built.counter.add(np.array([[0], [1], [9]], np.uint8), counts)
    assert counts.tolist() == [1, 0, 0, 0, 1, 2, 0, 0, 0, 1]
    found = built.estimator.estimate(counts, 3)
    assert found.n.tolist() == [2, 0, 0, 0, 1]
    assert np.isnan(found.frequency).tolist() == [False, True, True, True, False]
    assert np.isnan(built.estimator.consistent("norm_sub", found)).all()
    built.counter.add(np.array([[2], [4], [7]], np.uint8), counts)
    assert built.estimator.consistent("norm_sub", built.estimator.estimate(counts, 6)).sum() == pytest.approx(
        1
    )


# BinFlip+


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 1.3862943611198906, 2.0, 10.0, 32.0])
def test_binflip_plus_spends_its_level_at_every_epsilon(epsilon: float) -> None:
    """Ratio of both outcomes e^ε, rounded down; ½·e^{ε/2} of the generic protocol would exceed 1."""
    built = build("binflip_plus", 5, epsilon)
    p1, p0 = built.instant.own, built.instant.other
    assert p1 + p0 == 1
    assert built.guarantee.first_ratio == p1 / p0 == (1 - p0) / (1 - p1)
    assert float(p1 / p0) == pytest.approx(exp(epsilon), rel=1e-4 if epsilon > 30 else 1e-10)
    assert 0 < built.threshold < 1 << 31 or epsilon < 1e-5
    generic = (1 - exp(-epsilon / 2) / 2) / (1 - exp(epsilon / 2) / 2) if epsilon < 2 * log(2) else None
    if generic is not None and 0.05 < epsilon < 1.38:
        # What refusing tells in the generic protocol: more than ε.
        assert log(generic) > epsilon
    # To first order in ε they are the same acceptance.
    if epsilon <= 0.1:
        assert float(p1) == pytest.approx(exp(epsilon / 2) / 2, abs=epsilon**2)


def test_own_and_other_of_binflip_plus_in_small_words() -> None:
    """The formula for 64-bit words, with 10-bit words and every string walked (2**20 seeds)."""
    bits, threshold = 10, 11
    a = np.arange(1 << bits, dtype=np.int64)[:, None]
    c = np.arange(1 << bits, dtype=np.int64)[None, :]
    share = Fraction(threshold, 32)
    accept = Fraction(5, 7)
    for v, w in [(0, 1), (1, 2), (0, 16), (8, 24), (5, 31), (15, 31)]:
        y, z = (((a * x + c) % (1 << bits)) >> 5 < threshold for x in (v, w))
        total = 1 << 2 * bits
        assert Fraction(int(y.sum()), total) == share
        both, only = int((y & z).sum()), int((y & ~z).sum())
        # Held w; supports v when y_v = 1 and the bit is 1.
        found = Fraction(both, total) * accept + Fraction(only, total) * (1 - accept)
        assert found == share * (share * accept + (1 - share) * (1 - accept))
    built = build("binflip_plus", 9, 1.0)
    q, p1 = Fraction(built.threshold, 1 << 32), built.instant.own
    assert built.estimator.support.own == q * p1
    assert built.estimator.support.other == q * (q * p1 + (1 - q) * (1 - p1))
    assert float(q) == pytest.approx(1 / (exp(0.5) + 1), abs=2**-33)


def test_refused_strings_support_nothing_and_accepted_ones_what_they_say() -> None:
    built = build("binflip_plus", 40, 1.0)
    assert isinstance(built, BinFlipPlus)
    draw = np.random.default_rng(2)
    payloads = draw.integers(0, 256, (300, 17), np.uint8)
    payloads[:, 16] &= 1
    for rows in (payloads, payloads[payloads[:, 16] == 0]):
        counts = np.zeros(40, np.int64)
        built.counter.add(rows, counts)
        responses = [built.device.decode(row.tobytes()) for row in rows]
        assert counts.tolist() == [sum(built.law.supports(r, v) for r in responses) for v in range(40)]
    assert not counts.any()


# RAPPOR


def test_rappor_has_the_deployed_second_round_and_says_its_first_level() -> None:
    """p2 = 3/4 and q2 = 1/4 to the last bit; ε1 from the composed probabilities."""
    built = build("rappor", 8, 2.0)
    assert (built.rounds.last.own, built.rounds.last.other) == (Fraction(3, 4), Fraction(1, 4))
    p1 = exp(1) / (exp(1) + 1)
    own, other = 0.25 + p1 / 2, 0.75 - p1 / 2
    assert built.guarantee.first_report == pytest.approx(log(own * (1 - other) / ((1 - own) * other)))
    assert built.guarantee.per_memoised_input == pytest.approx(2.0, abs=1e-12)
    # The same channel as l_sue when that is asked for this ε1.
    asked = Parameters(epsilon_longitudinal=2.0, epsilon_first=built.guarantee.first_report)
    l_sue = protocol("l_sue", 8, asked)
    assert isinstance(l_sue, FrequencyProtocol)
    assert float(l_sue.estimator.support.own) == pytest.approx(own, rel=1e-12)


@pytest.mark.parametrize(
    "p2,q2", [(0.25, 0.75), (0.5, 0.5), (1.0, 0.5), (0.5, 0.0), (-0.1, -0.2), (1e-25, 1e-26), (0.5, 1.5)]
)
def test_rappor_refuses_second_rounds_that_say_nothing_or_everything(p2: float, q2: float) -> None:
    with pytest.raises(CollectionError, match="0 < q2 < p2 < 1"):
        build("rappor", 8, 2.0, p2=p2, q2=q2)


def test_rappor_rounds_toward_privacy() -> None:
    """p2 down and q2 up, where a multiple of 2**-64 cannot say them; facts give back what was used."""
    built = build("rappor", 8, 2.0, p2=1e-5, q2=1e-7)
    assert 0 <= Fraction(1e-5) - built.rounds.last.own < Fraction(1, FULL)
    assert 0 <= built.rounds.last.other - Fraction(1e-7) < Fraction(1, FULL)
    again = build("rappor", 8, 2.0, **built.resolved_parameters())
    assert again == built


# Collections

BASE = "name: a\ndomain: {size: 8}\nepoch: {length: 6h}\n"


def parse(text: str) -> Collection:
    return parse_collection(BASE + text, "c.yaml")


def test_collections_carry_the_new_keys_into_message_digest_and_record() -> None:
    three, four = (parse(f"protocol: dbitflip\nepsilon: 1.0\nd: {d}\n") for d in (3, 4))
    assert three.to_message().d == 3
    assert three.digest != four.digest
    assert three.as_record()["parameters"] == {"epsilon": 1.0, "d": 3}
    assert isinstance(three.protocol, BitFlip)
    given = parse("protocol: rappor\nepsilon_longitudinal: 2.0\np2: 0.75\nq2: 0.25\n")
    default = parse("protocol: rappor\nepsilon_longitudinal: 2.0\n")
    other = parse("protocol: rappor\nepsilon_longitudinal: 2.0\np2: 0.8\n")
    assert given.digest == default.digest != other.digest
    assert (other.to_message().p2, other.to_message().q2) == (0.8, 0.25)
    assert default.as_record()["parameters"] == {"epsilon_longitudinal": 2.0, "p2": 0.75, "q2": 0.25}
    plain = parse("protocol: sue\nepsilon: 1.0\n").to_message()
    assert not any(plain.HasField(key) for key in ("d", "p2", "q2"))


@pytest.mark.parametrize(
    "text,where,words",
    [
        ("protocol: dbitflip\nepsilon: 1\nd: 9\n", "c.yaml:6", "d = 9 is not in 1 .. 8"),
        ("protocol: dbitflip\nepsilon: 1\nd: 0\n", "c.yaml:6", "d must lie in 1"),
        ("protocol: dbitflip\nepsilon: 1\nd: true\n", "c.yaml:6", "d must be an integer"),
        ("protocol: dbitflip\nepsilon: 1\n", "c.yaml", "key 'd' is missing"),
        ("protocol: dbitflip_pm\nepsilon_longitudinal: 1\n", "c.yaml", "key 'd' is missing"),
        ("protocol: sue\nepsilon: 1\nd: 2\n", "c.yaml:6", "d does not apply to protocol sue"),
        ("protocol: binflip\nepsilon: 1\nd: 8\n", "c.yaml:6", "d does not apply to protocol binflip"),
        ("protocol: sue\nepsilon: 1\np2: 0.5\n", "c.yaml:6", "p2 does not apply to protocol sue"),
        ("protocol: sue\nepsilon: 1\nq2: 0.5\n", "c.yaml:6", "q2 does not apply to protocol sue"),
        ("protocol: rappor\nepsilon_longitudinal: 1\np2: x\n", "c.yaml:6", "p2 must be a number"),
        ("protocol: rappor\nepsilon_longitudinal: 1\nq2: 0.8\n", "c.yaml:6", "0 < q2 < p2 < 1"),
        ("protocol: dbitflip_pm\nepsilon: 1\nd: 2\n", "c.yaml:5", "epsilon does not apply"),
    ],
)
def test_keys_that_cannot_work_are_refused_with_line_and_limit(text: str, where: str, words: str) -> None:
    with pytest.raises(CollectionError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert caught.value.where == where


def test_d_is_needed_from_python_too() -> None:
    with pytest.raises(CollectionError, match="'d' is missing"):
        build("dbitflip", 8)


# docs/bit-flip.md

ROWS = (
    ("dbitflip", 1),
    ("dbitflip", 4),
    (PM, 1),
    (PM, 4),
    ("binflip", None),
    ("binflip_plus", None),
    ("rappor", None),
)


def v_star(name: str, b: int, **more: Any) -> float:
    return float(build(name, b, 1.0, **more).estimator.support.floor)


def table(b: int = 32, epsilon: float = 1.0) -> list[str]:
    """The rows of the page's table."""
    found = []
    for name, d in ROWS:
        built = build(name, b, epsilon, d)
        guarantee = built.guarantee
        cap = guarantee.cap_over_inputs
        per_report = float(built.estimator.support.floor) / float(built.estimator.support.sampled)
        found.append(
            f"| `{name}` | {'–' if d is None else d} | {built.device.payload_bits} | {per_report:.2f} "
            f"| {guarantee.first_report:.3f} | {'none' if cap is None else f'{cap:.1f}'} |"
        )
    return found


def test_numbers_of_the_page_are_those_of_the_library() -> None:
    page = (REPOSITORY / "docs" / "bit-flip.md").read_text("utf-8")
    stated = [line for line in page.splitlines() if line.startswith("| `")]
    assert stated == table()
    words = " ".join(page.split())
    flipped, hashed = [], []
    for cap in (2.0, 4.0, 8.0):
        device = build(PM, 32, cap, 1)
        levels = Parameters(epsilon_longitudinal=cap / 2, epsilon_first=cap / 4, g=2)
        loloha: Any = protocol("loloha", 32, levels)
        assert device.guarantee.cap_over_inputs == pytest.approx(cap)
        assert loloha.guarantee.cap_over_inputs == pytest.approx(cap)
        flipped.append(f"{32 * float(device.estimator.support.floor):.2f}")
        hashed.append(f"{float(loloha.estimator.support.floor):.2f}")
    assert "n·V\\* is {}, {} and {} for `dbitflip_pm`, {}, {} and {} for".format(*flipped, *hashed) in words
    for b in (8, 32):
        assert v_star("blh", b) < v_star("blh", b, hash_family="affine") < v_star("binflip_plus", b)
    printed = {int(d): float(v) for d, v in re.findall(r"d = (\d+): ([\d.]+) printed", page)}
    assert printed == {d: round(32 / (2 * d * sinh(0.5)), 2) for d in (1, 4)}
