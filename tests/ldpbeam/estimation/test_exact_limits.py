"""Limits from the exact law of few counts, against convolutions and a search node by node."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from ldpbeam.estimates import _SCRATCH, Chances, estimate, interval
from ldpbeam.estimation import exact_limits as kernels
from ldpbeam.estimation.intervals import distance
from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.support import SupportProbabilities
from tests.reference import exact_limits as reference

TAILS = (0.025, 0.025 / 360, 2.5e-8)


def memory(slots: int = 1024) -> tuple[np.ndarray, ...]:
    return np.full((slots, 3), -1, np.int64), np.empty((slots, 2)), np.empty(_SCRATCH), np.empty(_SCRATCH)


def support(name: str, size: int, *levels: float) -> SupportProbabilities:
    names = ("epsilon",) if len(levels) == 1 else ("epsilon_longitudinal", "epsilon_first")
    built = protocol(name, size, Parameters(**dict(zip(names, levels, strict=True))))  # type: ignore[arg-type]
    assert isinstance(built, FrequencyProtocol)
    return built.estimator.support


def settings(number: int) -> Iterator[tuple[Chances, int, int, float]]:
    """Probabilities, reports, a count that is likely at some frequency, and a tie."""
    draw = np.random.default_rng(2)
    for place in range(number):
        name, size = str(draw.choice(["grr", "sue", "oue", "olh"])), int(draw.integers(2, 300))
        share = (Fraction(1), Fraction(1), Fraction(1, 2), Fraction(9, 10), Fraction(1, 50))[place % 5]
        chances = support(name, size, float(np.exp(draw.uniform(-2, 2.5)))).among(share).chances
        n = int(np.exp(draw.uniform(0, 5)))
        count = int(draw.binomial(n, chances[1] + draw.random() ** 3 * chances[2]))
        yield chances, n, count, float(draw.choice([draw.random(), 1e-9, 1 - 1e-9]))


def test_the_law_is_that_of_convolutions() -> None:
    """Both probabilities of a count, at all frequencies of a grid that is finer than one device."""
    for chances, n, count, _ in settings(40):
        own, other, _, unasked = chances
        for f in (0.0, 1.0, 0.5, 1 / n, 0.3 / n, 1 - 1 / n):
            pmf = reference.law(n, f, own, other, unasked)
            below, at = kernels.law(count, n, f * n, chances, *memory()[2:])
            assert below == pytest.approx(pmf[:count].sum(), abs=1e-12)
            assert at == pytest.approx(pmf[count], abs=1e-12)


@pytest.mark.parametrize(("n", "p", "q"), [(10**8, 0.3, 1e-7), (10**6, 0.999999, 3e-6), (40_000, 0.5, 0.001)])
def test_the_law_of_many_reports_keeps_its_digits(n: int, p: float, q: float) -> None:
    """Chances add up to 1, and each is right: no digits are lost to the size of n."""
    chances = (p, q, p - q, 0.0)
    scratch = np.empty(_SCRATCH), np.empty(_SCRATCH)
    for held in (0.0, 5.0, 60.0):
        found = np.array([kernels.law(c, n, held, chances, *scratch) for c in range(400)])
        assert found[:, 1].sum() == pytest.approx(1, abs=1e-13)
        assert found[1:, 0] == pytest.approx(np.cumsum(found[:-1, 1]), abs=1e-13)
        mean = float(found[:, 1] @ np.arange(400))
        assert mean == pytest.approx(held * p + (n - held) * q, rel=1e-12)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.cases(1)
def test_limits_are_those_of_a_search_from_the_first_node(part: int) -> None:
    for chances, n, count, tie in list(settings(80))[part::4]:
        step = distance(n, chances)
        for tail in TAILS:
            slow = reference.exact_limits(count, n, tie, tail, chances, step)
            for upper in (False, True):
                fast = kernels.limit(count, n, tie, tail, upper, n / 3, (step, chances), memory())
                assert fast / n == pytest.approx(slow[upper], abs=1e-9)


def test_a_limit_depends_on_no_guess_and_on_nothing_remembered() -> None:
    """Bit for bit: from any guess, with a memory of one slot or many, and used for other values before."""
    used, draw = memory(64), np.random.default_rng(5)
    for chances, n, count, tie in settings(80):
        if 0 < chances[3] < kernels.NEARLY_ALL:
            continue  # a mixture of two laws need not rise everywhere; the guess follows from the value
        setting = distance(n, chances), chances
        used[0][:] = -1  # what is remembered is of one setting
        for upper in (False, True):
            found = {
                kernels.limit(count, n, tie, TAILS[0], upper, guess, setting, one)
                for guess in (-1.0, 0.0, n / 2, 1.0 * n, 2.0 * n, draw.random() * n)
                for one in (memory(1), memory(), used)
            }
            assert len(found) == 1


def test_values_that_share_a_slot_do_not_share_their_chances() -> None:
    """Counts, numbers of reports and nodes that differ in one of the three, in turn in one slot."""
    setting, shared = (1.0, (0.4, 0.1, 0.3, 0.0)), memory(1)
    asked = [(3, 20, 5), (3, 21, 5), (4, 21, 5), (4, 21, 6), (3, 21, 6), (3, 20, 6), (3, 20, 5)]
    found = [kernels.excess(*one, 0.3, TAILS[0], False, setting, shared) for one in asked]
    assert found == [kernels.excess(*one, 0.3, TAILS[0], False, setting, memory()) for one in asked]
    assert len(set(found)) == 6


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 2), Fraction(1, 50)])
def test_limits_of_a_value_are_the_same_whatever_stands_beside_it(share: Fraction) -> None:
    """Bit for bit, in any order and any parts."""
    probabilities = support("grr", 100, 1.0).among(share)
    draw = np.random.default_rng(3)
    n = draw.choice([3, 40, 41, 900, 3000], 3000)
    counts, ties = draw.binomial(n, 0.012), draw.random(3000)
    whole = np.array(interval(counts, n, probabilities, ties))
    order = draw.permutation(3000)
    assert np.array_equal(
        np.array(interval(counts[order], n[order], probabilities, ties[order])), whole[:, order]
    )
    for place in range(0, 3000, 97):
        one = slice(place, place + 1)
        alone = np.array(interval(counts[one], n[one], probabilities, ties[one]))
        assert np.array_equal(alone, whole[:, one])


@pytest.mark.parametrize("upper", [False, True])
def test_a_limit_at_a_node_is_just_not_rejected(upper: bool) -> None:
    """The definition, with whole numbers of devices: the tie is chosen so that the limit is j."""
    own, other, n, j, tail = 0.8, 0.1, 50, 17, 0.025
    pmf = reference.law_of_two(n, j, own, other)
    tails = pmf.cumsum() if upper else pmf[::-1].cumsum()
    count = int(np.searchsorted(tails, tail))
    rest = (tail - tails[count - 1]) / (tails[count] - tails[count - 1])
    tie = 1 - rest if upper else rest
    chances = (own, other, own - other, 0.0)
    c = count if upper else n - count
    found = kernels.limit(c, n, tie, tail, upper, 3.0, (distance(n, chances), chances), memory())
    assert found == pytest.approx(j, abs=1e-9)


@pytest.mark.parametrize("own", [Fraction(1), Fraction(1, 2)])
@pytest.mark.parametrize("other", [Fraction(0), Fraction(1, 4)])
@pytest.mark.parametrize("n", [1, 3, 60])
def test_no_interval_is_empty_and_each_holds_its_estimate(own: Fraction, other: Fraction, n: int) -> None:
    """Also where reports hold no noise at all, at every count and with the most extreme ties."""
    probabilities = SupportProbabilities(own, other)
    counts = np.arange(n + 1)
    for tie in (2.0**-54, 0.01, 0.024, 0.5, 0.976, 0.99, 1 - 2.0**-53):
        for one in (probabilities, probabilities.among(Fraction(1, 3)), probabilities.among(Fraction(1, 99))):
            found = estimate(counts, n, one, np.full(n + 1, tie))
            for low, high in ((found.low, found.high), (found.low_all, found.high_all)):
                assert (low < high).all()
                assert (low <= found.frequency).all() and (found.frequency <= high).all()
                assert (low >= np.minimum(found.frequency, 0)).all()
                assert (high <= np.maximum(found.frequency, 1)).all()


@pytest.mark.parametrize("name", ["grr", "oue", "l_grr"])
@pytest.mark.parametrize("n", [7, 300, 20_000])
def test_limits_fall_as_the_tie_rises_and_rise_with_the_count(name: str, n: int) -> None:
    """A count with a tie of 0 is the next one with a tie of 1, and no limit jumps between."""
    levels = (2.0, 1.0) if name == "l_grr" else (2.0,)
    probabilities = support(name, 60, *levels)
    middle = round(n * float(probabilities.other))
    counts = np.arange(max(middle - 30, 0), min(middle + 300, n + 1))
    ties = np.linspace(1 - 1e-9, 1e-9, 9)
    found = interval(np.repeat(counts, 9), n, probabilities, np.tile(ties, counts.size))
    one, jumps = 1 / (n * float(probabilities.gap)), 0
    for limit in found:
        steps, free = np.diff(limit), (limit > 0) & (limit < 1)
        # Where limits of many counts begin, they differ by a few hundredths of a count.
        assert (steps >= -0.05 * one).all()
        between = steps[8::9][(free[:-1] & free[1:])[8::9]]
        jumps += between.size
        assert (between <= 0.05 * one).all()
    assert jumps > 0
