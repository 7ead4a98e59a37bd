"""Bit-flip protocols and deployed RAPPOR: exact where enumeration can be, sampled where it must be.

What every protocol obeys is in tests/laws; here stands what is particular to these.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import exp, log, prod, sinh
from typing import Any

import numpy as np
import pytest

from ldpbeam.arrays import read_only
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.consistency import METHODS, consistent
from ldpbeam.consistency.base import Noise
from ldpbeam.errors import CollectionError, InvalidPayload
from ldpbeam.kernels import bit_flip as kernels
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.protocols import bit_flip as protocols
from ldpbeam.protocols.bit_flip import BucketBits
from ldpbeam.randomness import FULL
from tests.conftest import REPOSITORY
from tests.reference.script import ScriptedRandomness

PM = "dbitflip_pm"


def build(name: str, b: int, epsilon: float = 1.0, d: int | None = None, **more: Any) -> Any:
    level = "epsilon_longitudinal" if name in (PM, "rappor") else "epsilon"
    return protocol(name, b, Parameters(**{level: epsilon}, d=d, **more))  # type: ignore[arg-type]


# Sampling


@pytest.mark.parametrize("b,d", [(2, 1), (3, 2), (4, 1), (4, 2), (4, 3), (5, 2)])
def test_every_set_is_sampled_equally_often(b: int, d: int) -> None:
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


# Exact channels


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
def test_one_bit_spends_half_of_the_nominal_level(epsilon: float) -> None:
    """d = 1: ε/2, the papers' choice; from two bits on ε; a lifetime is min(d+1, b) times as much."""
    for d, spent in ((1, epsilon / 2), (2, epsilon), (5, epsilon), (6, epsilon)):
        assert build("dbitflip", 6, epsilon, d).guarantee.first_report == pytest.approx(spent, rel=1e-12)
        for_life = build(PM, 6, epsilon, d).guarantee
        assert for_life.per_memoised_input == for_life.first_report
        assert for_life.memoised_inputs == min(d + 1, 6)
        assert for_life.cap_over_inputs == pytest.approx(min(d + 1, 6) * spent, rel=1e-12)


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
    *((100, d, 1.0) for d in (1, 15, 16, 99)),
    # Not every number of ones is admitted: few of them are too many, or they are too few as well.
    *((360, d, 8.0) for d in (16, 33)),
    (360, 359, 0.5),
    # The largest index is the largest that fits.
    (128, 64, 1.0),
    *((1 << 15, d, 1.0) for d in (1, 2)),
    (700, 600, 1.0),  # longer than what is checked at once
    (40_000, 2, 1.0),  # entries of three bytes
]


@pytest.mark.cases(12)
@pytest.mark.parametrize("b,d,epsilon", CHECKED)
def test_one_wrong_report_is_found_wherever_it_stands(b: int, d: int, epsilon: float) -> None:
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


@pytest.mark.parametrize("b,d", [(100, 1), (128, 3), (129, 1), (360, 16), (1 << 15, 2), (40_000, 2)])
def test_entries_are_counted_however_many_they_are(b: int, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
    built = build("dbitflip", b, d=1)
    n = 200_000
    counts = np.zeros(2 * b, np.int64)
    built.counter.add(payloads_of(built, np.full((n, 1), 2 * b - 1)), counts)
    assert np.flatnonzero(counts).tolist() == [b - 1, 2 * b - 1]
    assert counts[b - 1] == counts[2 * b - 1] == n


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


def test_a_bucket_that_nobody_sampled_has_no_estimate() -> None:
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


def test_consistency_goes_by_the_mean_number_of_reports_about_a_bucket() -> None:
    estimator = build("dbitflip", 4, d=2).estimator
    found = estimator.estimate(np.array([40, 9, 12, 3, 60, 20, 30, 10]), 60)
    noise = Noise(30, float(estimator.support.own), float(estimator.support.other), exclusive=False)
    for method in METHODS:
        wanted = consistent(method, found.frequency, noise)
        assert estimator.consistent(method, found).tolist() == wanted.tolist()


# BinFlip+


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 1.3862943611198906, 2.0, 10.0, 32.0])
def test_binflip_plus_spends_its_level_at_every_epsilon(epsilon: float) -> None:
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
    built = build("rappor", 8, 2.0, p2=1e-5, q2=1e-7)
    assert 0 <= Fraction(1e-5) - built.rounds.last.own < Fraction(1, FULL)
    assert 0 <= built.rounds.last.other - Fraction(1e-7) < Fraction(1, FULL)
    again = build("rappor", 8, 2.0, **built.resolved_parameters())
    assert again == built


# Collections

BASE = "name: a\ndomain: {size: 8}\nepoch: {length: 6h}\n"


def parse(text: str) -> Collection:
    return parse_collection(BASE + text, "c.yaml")


@pytest.mark.parametrize(
    "text,where,words",
    [
        ("protocol: dbitflip\nepsilon: 1\nd: 9\n", "c.yaml:6", "d = 9 is not in 1 .. 8"),
        ("protocol: dbitflip\nepsilon: 1\n", "c.yaml", "key 'd' is missing"),
        ("protocol: sue\nepsilon: 1\nd: 2\n", "c.yaml:6", "d does not apply to protocol sue"),
        ("protocol: rappor\nepsilon_longitudinal: 1\np2: x\n", "c.yaml:6", "p2 must be a number"),
        ("protocol: rappor\nepsilon_longitudinal: 1\nq2: 0.8\n", "c.yaml:6", "0 < q2 < p2 < 1"),
    ],
)
def test_keys_that_cannot_work_are_refused_with_line_and_limit(text: str, where: str, words: str) -> None:
    with pytest.raises(CollectionError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert caught.value.where == where


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
