"""What several counters of one device cost together, when their sum is bounded (`004` Theorem 5)."""

from __future__ import annotations

from math import expm1, inf, nextafter

__all__ = ["theorem_5"]


def theorem_5(first: float) -> float:
    """ε'' = ε' + e^ε' − 1: loss of one bit about each of any number of counters with Σ x_i <= m.

    Each bit is ``one_bit_mean`` over 0..m, or a first report of ``one_bit_rrpm``, all at the level ``first``
    (ε', as :attr:`ldp.privacy.Guarantee.first_report` gives it). The number of counters does not enter: a
    device that holds x_i gains at most the factor 1 + (x_i/m)(e^ε'−1) on bit i over one that holds 0, and the
    product of those is at most e^(e^ε'−1); one counter at m, whose bit is 0, adds ε'. Without a bound on the
    sum each counter costs ε', which is less for one or two counters.

    It compares one report of each counter with another one. Over many reports of memoised bits, the levels
    per memoised input of the counters add up.

    `004` prints ε'' = 1.672 from its ε' = 0.686. The deployment (ε = 1, γ = 0.2) has ε' = 0.569 (MATHS
    correction 6), hence ε'' = 1.337.

    Args:
        first: level of one counter's bit, positive.

    Returns:
        The bound, rounded up.

    Raises:
        ValueError: the level is not positive.
    """
    if not first > 0:
        raise ValueError(f"a level is positive, not {first}")
    # expm1 and the sum are each off by an ulp at most.
    return nextafter(nextafter(first + expm1(first), inf), inf)
