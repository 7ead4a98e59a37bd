"""Means: exactly unbiased bits, α-point rounding, noise with a proven level, and what they cost together."""

from __future__ import annotations

import random
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise, product
from math import cosh, e, log, prod, sinh
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from ldpbeam.channels.channel import BitChannel
from ldpbeam.channels.exact import exp_below
from ldpbeam.channels.noise import WIDE, LaplaceNoise
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import CollectionError, InvalidPayload
from ldpbeam.estimates import Estimates
from ldpbeam.privacy.counters import bounded_sum_epsilon
from ldpbeam.protocols import Parameters
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.one_bit_mean import LinearBit, OneBitMean, OneBitRRPM
from ldpbeam.randomness import FULL
from tests.narrow import present
from tests.reference.script import ScriptedRandomness


def one_bit(size: int, epsilon: float = 1.0) -> OneBitMean:
    return OneBitMean.from_parameters(size, Parameters(epsilon=epsilon))


def rrpm(size: int, epsilon: float = 1.0, **chosen: Any) -> OneBitRRPM:
    return OneBitRRPM.from_parameters(size, Parameters(epsilon_longitudinal=epsilon, **chosen))


def laplace(size: int, epsilon: float = 1.0) -> LaplaceMean:
    return LaplaceMean.from_parameters(size, Parameters(epsilon=epsilon))


# --- the bit

LEVELS = (1e-6, 1.0, 32.0)


@pytest.mark.parametrize("epsilon", LEVELS)
@pytest.mark.parametrize("maximum", [1, 7, 86400, (1 << 24) - 1])
def test_the_bit_is_linear_and_spends_no_more_than_its_level(maximum: int, epsilon: float) -> None:
    bit = LinearBit.from_epsilon(maximum, epsilon)
    assert bit.weight(0) == bit.zero
    assert bit.weight(maximum) == bit.one == FULL - bit.zero
    steps = {bit.weight(x + 1) - bit.weight(x) for x in range(min(maximum, 50))}
    assert steps == {bit.step}
    assert 1 < bit.ratio <= exp_below(epsilon)
    # An end's weight is at most m + 1 nearer to the middle than its level allows.
    nominal = FULL / (exp_below(epsilon) + 1)
    assert 0 <= bit.zero - nominal <= maximum + 2


@pytest.mark.parametrize(
    "built", [one_bit(9), rrpm(9, gamma=0.2), rrpm(9, segment=2), rrpm(10, 0.5, segment=3)]
)
def test_the_estimator_is_unbiased_in_rational_arithmetic(built: OneBitMean | OneBitRRPM) -> None:
    m = built.estimator.maximum
    for values in ([0] * 3, [m] * 5, list(range(m + 1)), [1, 1, 5, 7, 8]):
        ones = sum(built.law.likelihood(1, value) for value in values)
        share = (ones / len(values) - present(built.forgery.ends).other) / present(built.forgery.ends).gap
        assert m * share == Fraction(sum(values), len(values))


@pytest.mark.parametrize("maximum", [1, 6, (1 << 24) - 1])
def test_arrays_draw_the_same_bits_at_every_threshold(maximum: int) -> None:
    bit = LinearBit.from_epsilon(maximum, 1.0)
    draw = random.Random(maximum)
    values = [
        *range(min(maximum + 1, 5)),
        maximum - 1,
        maximum,
        *(draw.randint(0, maximum) for _ in range(50)),
    ]
    pairs = [(v, w + d) for v in values for w in (bit.weight(v),) for d in (-1, 0, 1)]
    pairs += [(v, w) for v in values for w in (0, FULL - 1, draw.getrandbits(64))]
    expected = [int(word < bit.weight(value)) for value, word in pairs]
    assert [bit.draw(v, ScriptedRandomness([w])) for v, w in pairs] == expected
    columns = np.array([v for v, _ in pairs]), np.array([w for _, w in pairs], np.uint64)
    assert bit.draw_many(*columns).tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_unsound_steps_are_refused() -> None:
    for maximum, step in ((3, 0), (3, 5), (2, 1 << 63)):
        with pytest.raises(ValueError, match="even number below"):
            LinearBit(maximum, step)


# --- α-point rounding


@pytest.mark.parametrize(
    ("size", "segment"), [(9, 1), (9, 2), (9, 4), (9, 8), (13, 3), (2, 1), (86401, 3600)]
)
def test_rounding_is_right_on_average_and_goes_to_a_neighbour(size: int, segment: int) -> None:
    built = rrpm(size, segment=segment)
    for value in range(size) if size < 100 else (0, 1, 3599, 3600, 3601, 50_000, 86_399, 86_400):
        points = [built.device.point(value, alpha) * segment for alpha in range(segment)]
        assert sum(points) == value * segment
        assert all(0 <= p <= size - 1 and abs(p - value) < segment for p in points)
        # As the paper writes it: L where x + α < R, else R.
        low = value // segment * segment
        paper = [low if value + alpha < low + segment else low + segment for alpha in range(segment)]
        assert points == paper


# --- correction 6 and Theorem 5


def composed(gamma: float) -> float:
    p = e / (e + 1)
    return log(((1 - 2 * gamma) * p + gamma) / ((1 - 2 * gamma) * (1 - p) + gamma))


def test_output_perturbation_has_the_corrected_level() -> None:
    """docs/maths.md correction 6: 0.569 at ε = 1 and γ = 0.2; the printed 0.686 would need γ = 0.143."""
    built = rrpm(86401, gamma=0.2)
    assert built.guarantee.first_report == pytest.approx(composed(0.2), rel=1e-12)
    assert round(built.guarantee.first_report, 3) == 0.569
    assert round(rrpm(86401, gamma=0.143).guarantee.first_report, 3) == 0.686
    assert built.guarantee.per_memoised_input == pytest.approx(1.0, rel=1e-12)
    assert rrpm(86401).guarantee.first_ratio == built.guarantee.memoised_ratio


def test_flips_are_rounded_toward_privacy() -> None:
    for gamma in (1e-30, 0.1, 1 / 3, 0.49999999):
        built = rrpm(3, gamma=gamma)
        assert Fraction(gamma) <= Fraction(built.flip, FULL) < Fraction(gamma) + Fraction(1, FULL)
        assert built.instant == BitChannel(FULL - built.flip, built.flip)
        assert built.guarantee.first_ratio < present(built.guarantee.memoised_ratio)


def test_theorem_5() -> None:
    assert round(bounded_sum_epsilon(0.686), 3) == 1.672
    assert round(bounded_sum_epsilon(rrpm(86401, gamma=0.2).guarantee.first_report), 3) == 1.337
    for first in (1e-9, 0.1, 1.0, 5.0):
        true = Context(prec=50).exp(Decimal(first)) + Decimal(first) - 1
        assert true <= Decimal(bounded_sum_epsilon(first)) <= true * (1 + Decimal("1e-15"))
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="positive"):
            bounded_sum_epsilon(wrong)


# --- Laplace noise


def exact(noise: LaplaceNoise) -> list[tuple[int, list[int], Fraction]]:
    """Every path through ``draw`` with the words of one end and the weight of its words."""

    def parts(cuts: list[int], total: int) -> list[tuple[int, Fraction]]:
        edges = [0, *sorted(cuts), total]
        return [(low, Fraction(high - low, total)) for low, high in pairwise(edges)]

    choices = [parts([noise.negative], WIDE), parts(list(noise.tails), WIDE)]
    choices += [parts([weight], FULL) for weight in noise.bits]
    found: list[tuple[int, list[int], Fraction]] = []
    for path in product(*choices):
        (sign, digit), bits = (path[0][0], path[1][0]), [word for word, _ in path[2:]]
        words = [*divmod(sign, FULL), *divmod(digit, FULL), *bits]
        found.append(
            (
                noise.draw(ScriptedRandomness(words)),
                words,
                prod((share for _, share in path), start=Fraction(1)),
            )
        )
    return found


@pytest.mark.parametrize(("maximum", "epsilon"), [(1, 1.0), (1, 30.0), (3, 0.5), (9, 1.0), (20, 3.0)])
def test_noise_has_exactly_the_stated_distribution(maximum: int, epsilon: float) -> None:
    noise = laplace(maximum + 1, epsilon).instant
    paths = exact(noise)
    assert len({z for z, _, _ in paths}) == len(paths)
    assert sum(weight for _, _, weight in paths) == 1
    width = 1 << len(noise.bits)
    end = len(noise.tails) * width
    for z, words, weight in paths:
        assert noise.words == len(words)
        magnitude = z if z >= 0 else -1 - z
        if magnitude < end:
            assert noise.probability(z) == weight
    drawn = noise.draw_many(np.array([words for _, words, _ in paths], np.uint64))
    assert drawn.tolist() == [z for z, _, _ in paths]
    for t in range(end):
        assert noise.above(t) == sum(w for z, _, w in paths if z >= t)
        assert noise.below(-1 - t) == sum(w for z, _, w in paths if z <= -1 - t)


@pytest.mark.cases(8)
@pytest.mark.parametrize(
    ("maximum", "epsilon"),
    [*product((1, 2, 5, 12), (0.3, 1.0, 2.7, 8.0, 32.0)), (60, 4.0), (1, 0.01), (1, 27.5)],
)
def test_no_report_spends_more_than_epsilon(maximum: int, epsilon: float) -> None:
    built = laplace(maximum + 1, epsilon)
    rows = [[built.law.likelihood(y, x) for y in built.law.responses()] for x in range(maximum + 1)]
    assert [sum(row) for row in rows] == [1] * (maximum + 1)
    worst = max(max(column) / min(column) for column in zip(*rows, strict=True))
    assert worst <= exp_below(epsilon) == built.guarantee.first_ratio
    assert exp_below(epsilon) / worst - 1 < Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("maximum", "epsilon"),
    [(1, 1e-6), (1, 32.0), (4, 27.0), (360, 1.0), (86400, 0.001), (86400, 1.0), ((1 << 24) - 1, 0.125),
     ((1 << 24) - 1, 1.0), ((1 << 24) - 1, 32.0)],
)  # fmt: skip
def test_the_proof_holds_for_the_integers(maximum: int, epsilon: float) -> None:
    built = laplace(maximum + 1, epsilon)
    noise, context = built.instant, Context(prec=120)
    width = 1 << len(noise.bits)

    def ln(weight: int, total: int, ideal: Decimal) -> Decimal:
        return context.ln(context.divide(context.divide(Decimal(weight), Decimal(total)), ideal))

    # Any ideal law may be compared with: one whose first digit is met exactly.
    rate = context.divide(-ln(noise.tails[0], WIDE, Decimal(1)), Decimal(width))
    assert float(rate) == pytest.approx(noise.rate, rel=1e-14)

    def power(distance: int) -> Decimal:
        return context.exp(context.multiply(rate, Decimal(-distance)))

    def odds(weight: int, total: int, distance: int) -> list[Decimal]:
        r = power(distance)
        ones = ln(weight, total, context.divide(r, context.add(r, Decimal(1))))
        zeros = ln(total - weight, total, context.divide(Decimal(1), context.add(r, Decimal(1))))
        return [ones, zeros]

    tails = [WIDE, *noise.tails]
    digits = [
        ln(high - low, WIDE, context.subtract(power(q * width), power((q + 1) * width)))
        for q, (high, low) in enumerate(zip(tails, noise.tails, strict=False))
    ]
    digits.append(ln(noise.tails[-1], WIDE, power(len(noise.tails) * width)))
    spreads = [odds(noise.negative, WIDE, 1), digits]
    spreads += [odds(weight, FULL, 1 << i) for i, weight in enumerate(noise.bits)]
    assert all(min(s) <= 0 <= max(s) for s in spreads[2:])
    total = sum(max(s) - min(s) for s in spreads)
    assert total < Decimal("1e-9")
    assert context.add(context.multiply(rate, Decimal(maximum)), total) <= Decimal(epsilon)
    assert len(noise.tails) * width >= maximum + built.margin
    assert noise.words <= 4 + 28
    assert built.margin < 1 << 33
    assert noise.tails[-1] > 1 << 30


@pytest.mark.parametrize(("maximum", "epsilon"), [(1, 1.0), (4, 0.2), (6, 1.0), (5, 20.0), (1, 32.0)])
def test_clamping_does_not_move_the_mean(maximum: int, epsilon: float) -> None:
    built = laplace(maximum + 1, epsilon)
    for x in range(maximum + 1):
        law = [(y, built.law.likelihood(y, x)) for y in built.law.responses()]
        mean = sum((y * p for y, p in law), Fraction(0))
        assert abs(mean - x) < maximum * Fraction(1, 1 << 40)
        spread = float(sum((y - x) ** 2 * p for y, p in law))
        assert spread == pytest.approx(built.instant.variance, rel=1e-8)
    assert built.instant.variance == pytest.approx(0.5 / sinh(epsilon / maximum / 2) ** 2, rel=1e-9)


def test_payloads_are_signed_and_within_range() -> None:
    built = laplace(4, 1.0)
    low, high = -built.margin, built.estimator.maximum + built.margin
    assert built.device.payload_size == 8
    assert built.device.encode(-2) == b"\xfe" + b"\xff" * 7
    payloads = [
        n.to_bytes(8, "little", signed=True)
        for n in (low, -1, 0, high, low - 1, high + 1, 1 << 62, -(1 << 63))
    ]
    codes = built.counter.check(np.frombuffer(b"".join(payloads), np.uint8).reshape(-1, 8))
    assert codes.tolist() == [0] * 4 + [1] * 4
    for payload in payloads[4:]:
        with pytest.raises(InvalidPayload, match="value_out_of_range"):
            built.device.decode(payload)
    counts = np.zeros(1, np.int64)
    built.counter.add(np.frombuffer(b"".join(payloads[:3]), np.uint8).reshape(-1, 8), counts)
    assert counts.tolist() == [low - 1]


def test_the_largest_scale_is_named() -> None:
    assert laplace(1 << 24, 0.125).margin < 1 << 33
    with pytest.raises(CollectionError, match="up to 134217728, not 167772150") as caught:
        laplace(1 << 24, 0.1)
    assert caught.value.code == "E-COLLECTION-INFEASIBLE"


# --- estimates


def test_the_error_is_exact_for_equal_values_and_otherwise_too_large() -> None:
    for built in (one_bit(101), rrpm(101, 1.5, gamma=0.1)):
        m, n, gap = built.estimator.maximum, 4000, float(present(built.forgery.ends).gap)
        level = built.guarantee.first_report
        for values in (
            [37] * n,
            [0] * n,
            [0, m] * (n // 2),
            [v % (m + 1) for v in range(n)],
            [10, 30] * (n // 2),
        ):
            each = [float(built.law.likelihood(1, v)) for v in range(m + 1)]
            true = (m / gap / n) ** 2 * sum(each[v] * (1 - each[v]) for v in values)
            ones = round(sum(each[v] for v in values))
            found = built.estimator.estimate(np.array([ones]), n)
            p = ones / n
            assert found.std_error[0] ** 2 == pytest.approx((m / gap) ** 2 * p * (1 - p) / n, rel=1e-9)
            plug_in = (
                (m / gap) ** 2
                * np.mean([each[v] for v in values])
                * np.mean([1 - each[v] for v in values])
                / n
            )
            assert plug_in - true == pytest.approx(float(np.var(values)) / n, rel=1e-9, abs=1e-9)
            assert 1 - 1e-12 <= plug_in / true <= cosh(level / 2) ** 2 * (1 + 1e-9)
            if values[:2] == [0, m]:
                assert plug_in / true == pytest.approx(cosh(level / 2) ** 2, rel=1e-9)


@pytest.mark.parametrize(("value", "n"), [(0, 300), (50, 300), (97, 2000)])
def test_intervals_cover_at_their_level(value: int, n: int) -> None:
    built, p = one_bit(101), float(one_bit(101).law.likelihood(1, value))
    draw = np.random.default_rng(n)
    covered = 0.0
    for ones in range(int(binom.ppf(1e-9, n, p)), int(binom.isf(1e-9, n, p)) + 1):
        ties = np.array([draw.random()])
        found = built.estimator.estimate(np.array([ones]), n, ties)
        assert found.low[0] <= found.frequency[0] <= found.high[0]
        covered += binom.pmf(ones, n, p) * bool(found.low[0] <= value <= found.high[0])
    # An end of the values is missed on one side only, as intervals end there.
    assert covered == pytest.approx(0.95 if value else 0.975, abs=0.012)


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 3)])
def test_intervals_of_means_end_at_the_range_or_at_the_estimate(share: Fraction) -> None:
    for built, beyond in ((laplace(101), 900), (one_bit(101), 0)):
        sums = (-beyond, 0, 3, 97, 100, 100 + beyond) if beyond else (0, 20, 45, 55, 80, 100)
        ends = 0
        for total in sums:
            found = built.estimator.estimate(np.array([total * 100 if beyond else total]), 100, share=share)
            mean = float(found.frequency[0])
            for low, high in ((found.low, found.high), (found.low_all, found.high_all)):
                assert min(mean, 0.0) <= low[0] <= mean <= high[0] <= max(mean, 100.0)
                assert low[0] < high[0]
                ends += (low[0] in (0.0, mean)) + (high[0] in (100.0, mean))
        assert ends > 4


def test_consistency_clips_to_the_range() -> None:
    def estimates(mean: float) -> Estimates:
        return Estimates(np.array([9]), np.array([1]), np.full((6, 1), mean))

    for built in (one_bit(11), rrpm(11), laplace(11)):
        for method in ("norm_sub", "base_pos", "mle"):
            clipped = [
                float(built.estimator.consistent(method, estimates(x))[0])
                for x in (-3.0, 0.0, 4.5, 10.0, 12.0)
            ]
            assert clipped == [0.0, 0.0, 4.5, 10.0, 10.0]
        assert built.estimator.consistent("none", estimates(-3.0)).tolist() == [-3.0]
        assert built.estimator.size == 1


# --- collections

FILE = """
name: screen
domain: {range: {max: 86400}}
protocol: one_bit_rrpm
epsilon_longitudinal: 1.0
gamma: 0.2
segment: 43200
epoch: {length: 6h, count: 9}
"""


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("43200", "7000", "VALUE", "segment = 7000 does not divide the largest value 86400"),
        ("43200", "86401", "VALUE", "Use one of 43200, 86400"),
        ("0.2", "0.5", "VALUE", "gamma = 0.5 does not lie in 0 .. 0.5"),
        ("max: 86400", "max: 86400, buckets: 32", "VALUE", "buckets does not apply to a mean"),
        ("max: 86400", "max: 86400.0", "VALUE", "max must be an integer"),
        ("one_bit_rrpm\nepsilon_longitudinal", "one_bit_mean\nepsilon", "VALUE", "gamma does not apply"),
    ],
)
def test_unsound_collections_are_refused(old: str, new: str, code: str, said: str) -> None:
    with pytest.raises(CollectionError) as caught:
        parse_collection(FILE.replace(old, new))
    assert said in str(caught.value)
    assert caught.value.code == f"E-COLLECTION-{code}"


def test_labels_and_buckets_have_no_mean() -> None:
    good = parse_collection(FILE)
    for domain in (Domain(2, ("a", "b")), Domain(32, None, 86400.0)):
        with pytest.raises(CollectionError, match="takes the mean of numbers"):
            Collection("a", 1, domain, "one_bit_mean", Parameters(epsilon=1.0), good.epochs)
    Collection("a", 1, Domain(9), "laplace_mean", Parameters(epsilon=1.0), good.epochs)


def test_whole_numbers_are_exact() -> None:
    for top in (1, 7, 360, 86400):
        domain = Domain(top + 1, None, float(top))
        assert all(domain.index_of_text(str(v)) == v for v in range(0, top + 1, max(1, top // 500)))
    domain = Domain(86401, None, 86400.0)
    texts = {"0.49": 0, "0.5": 0, "1.5": 2, "86399.5": 86400, "86400.9": 86400, "1e300": 86400, "-3": 0}
    assert {raw: domain.index_of_text(raw) for raw in texts} == texts
    assert domain.label(86400) == "86400"
    assert domain.numeric
    assert Domain(3).numeric
    assert not Domain(32, None, 86400.0).whole
    for raw in ("nan", "inf", "x"):
        with pytest.raises(ValueError):
            domain.index_of_text(raw)
