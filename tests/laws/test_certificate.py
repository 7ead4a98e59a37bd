"""An exact certificate: over thousands of settings no protocol ever spends more than its nominal
level.

Everything is a rational number. The bounds of e^ε come from ``ldpbeam.channels.exact`` and, independently,
from a Taylor series in integers that this file sums itself.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from math import exp, inf, log, nextafter
from operator import ge, le

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.channels.exact import exp_below, largest, log_above, smallest
from ldpbeam.errors import CollectionError
from ldpbeam.protocols import PROTOCOLS, Parameters
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.one_bit_mean import LinearBit
from tests.narrow import present
from tests.reference.channels import channel, round_of, weighted_responses, worst_ratio
from tests.reference.settings import choices, levels_of, settings

_SCALE = 1 << 320


def taylor_bounds(epsilon: float) -> tuple[Fraction, Fraction]:
    """Rationals below and above e^ε, 0 <= ε <= 40, from Σ ε^i/i! with every term rounded down."""
    numerator, denominator = epsilon.as_integer_ratio()
    term, total, i = _SCALE, 0, 0
    while term:
        total += term
        i += 1
        term = term * numerator // (denominator * i)
    assert i < 600
    return Fraction(total, _SCALE), Fraction(total + (1 << 80), _SCALE)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(6))
def test_no_setting_spends_more_than_its_nominal_levels(part: int) -> None:
    """1000 random settings per part: ε1 and ε∞ never exceeded, and exactly calibrated ones fall short by
    at most 1e-12."""
    draw = random.Random(f"certificate {part}")
    names = sorted(PROTOCOLS)
    done: Counter[str] = Counter()
    while sum(done.values()) < 1000:
        name = draw.choice(names)
        kind = PROTOCOLS[name]
        longitudinal = draw.uniform(0.05, 8)
        first = longitudinal * draw.uniform(0.02, 0.98)
        size = int(exp(draw.uniform(log(2), log(5000))))
        chosen = draw.choice(list(choices(kind, size)))
        levels = {
            "epsilon": longitudinal,
            "epsilon_longitudinal": longitudinal,
            "epsilon_first": first,
        }
        parameters = Parameters(**levels_of(kind, **levels), **chosen)
        try:
            built = kind.from_parameters(size, parameters)
        except CollectionError as error:
            assert error.code == "E-COLLECTION-INFEASIBLE"
            assert name in ("l_oue", "l_soue")
            continue
        done[name] += 1
        guarantee = built.guarantee
        nominal = first if "epsilon_first" in kind.PARAMETERS else longitudinal
        below, above = taylor_bounds(nominal)
        context = (name, size, longitudinal, first, chosen)
        assert 1 < guarantee.first_ratio <= below, context
        assert guarantee.first_ratio <= exp_below(nominal), context
        if guarantee.memoised_ratio is not None:
            assert guarantee.first_ratio <= guarantee.memoised_ratio, context
            assert guarantee.memoised_ratio <= taylor_bounds(longitudinal)[0], context
            # The channel itself, not its own opinion of it.
            assert worst_of(round_of(built, "permanent"), chosen.get("d", 2)) == guarantee.memoised_ratio
        published = getattr(chosen.get("calibration"), "value", "") == "published"
        if chosen.get("d") == 1:
            # The papers set every bit by half the level, also where a report has only one.
            above = taylor_bounds(nominal / 2)[1]
        if name == "rappor":
            # ε1 is not asked for; what two values of the second round make of ε∞:
            p = exp(longitudinal / 2) / (exp(longitudinal / 2) + 1)
            own = chosen["q2"] + p * (chosen["p2"] - chosen["q2"])
            other = chosen["p2"] - p * (chosen["p2"] - chosen["q2"])
            follows = own * (1 - other) / ((1 - own) * other)
            assert float(guarantee.first_ratio) == pytest.approx(follows, rel=1e-11), context
            assert above / present(guarantee.memoised_ratio) - 1 <= Fraction(1, 10**12), context
        elif chosen.get("gamma"):
            # Nor here, where the memoised bit is flipped once more (Microsoft section 4):
            p, gamma = exp(longitudinal) / (exp(longitudinal) + 1), chosen["gamma"]
            follows = (p + gamma * (1 - 2 * p)) / (1 - p - gamma * (1 - 2 * p))
            assert float(guarantee.first_ratio) == pytest.approx(follows, rel=1e-11), context
            assert above / present(guarantee.memoised_ratio) - 1 <= Fraction(1, 10**12), context
        elif not published:
            # ln(above/ratio) <= above/ratio - 1
            assert above / guarantee.first_ratio - 1 <= Fraction(1, 10**12), context
    assert set(done) == set(names)


def worst_of(one_round: object, bits: int) -> Fraction:
    """Worst ratio from the integers of a round, of which two values change two bits, or the only one."""
    if isinstance(one_round, SymbolChannel):
        return Fraction(one_round.keep, one_round.each)
    one, zero, full = one_round.one, one_round.zero, 1 << 64  # type: ignore[attr-defined]
    if isinstance(one_round, LinearBit):
        return max(Fraction(one, zero), Fraction(full - zero, full - one))
    return Fraction(one, zero) if bits == 1 else Fraction(one * (full - zero), (full - one) * zero)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(2))
def test_small_domains_enumerated_agree_with_the_closed_form(part: int) -> None:
    draw = random.Random(f"enumerated {part}")
    for _ in range(12):
        longitudinal = draw.uniform(0.05, 8)
        first = longitudinal * draw.uniform(0.05, 0.6)
        levels = {"epsilon_longitudinal": longitudinal, "epsilon_first": first, "epsilon": first}
        for setting in settings((draw.choice((2, 3, 4)),), **levels):
            built = setting.build()
            if isinstance(built, LaplaceMean):
                continue  # 100,000 responses at small levels: tests/ldpbeam/protocols/test_means.py
            worst = worst_ratio(channel(built))
            assert worst == built.guarantee.first_ratio
            assert worst <= taylor_bounds(setting.nominal_first)[0]
            channel.cache_clear()
            weighted_responses.cache_clear()


# The bounds everything rests on


@given(st.floats(1e-6, 40))
def test_exponentials_are_bounded_from_below(epsilon: float) -> None:
    below, above = taylor_bounds(epsilon)
    found = exp_below(epsilon)
    assert found <= below
    assert above / found - 1 <= Fraction(2, 10**59)
    digits = Context(prec=120).exp(Decimal(epsilon))
    assert below - Fraction(1, 10**90) < Fraction(digits) < above + Fraction(1, 10**90)


@given(st.floats(1e-6, 40))
def test_logarithms_are_bounded_from_above(epsilon: float) -> None:
    above = taylor_bounds(epsilon)[1]
    printed = log_above(above)
    assert epsilon < printed <= nextafter(nextafter(epsilon, inf), inf)


def test_logarithms_of_nothing_are_refused() -> None:
    for ratio in (Fraction(0), Fraction(-1, 2)):
        with pytest.raises(ValueError, match="does not exist"):
            log_above(ratio)


def test_bisections_find_the_edge() -> None:
    for edge in range(-1, 9):
        assert largest(0, 7, partial(ge, edge)) == (None if edge < 0 else min(edge, 7))
        assert smallest(0, 7, partial(le, edge)) == (None if edge > 7 else max(edge, 0))


@given(st.integers(2, 1 << 24), st.fractions(1, 10**25))
def test_symbol_channels_never_exceed_the_ratio(size: int, ratio: Fraction) -> None:
    built = SymbolChannel.from_ratio(size, ratio)
    assert built.ratio <= ratio
    assert built.total <= 1 << 64
    assert built.each >= 1
