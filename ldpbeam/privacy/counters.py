"""What several counters of one device cost together, when their sum is bounded (Microsoft Theorem 5)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import expm1, inf, nextafter

from ldpbeam.channels.exact import exp_above, log_above
from ldpbeam.privacy.guarantee import Guarantee


def bounded_sum_epsilon(first: float) -> float:
    """ε'' = ε' + e^ε' − 1: loss of one bit about each of any number of counters with Σ x_i <= m."""
    if not first > 0:
        raise ValueError(f"a level is positive, not {first}")
    # expm1 and the sum are each off by an ulp at most.
    return nextafter(nextafter(first + expm1(first), inf), inf)


def bounded_sum_ratio(single: Fraction) -> Fraction:
    """A rational at least e^ε'' = r·e^(r−1), where r = e^ε' is the exact worst ratio of one counter's bit."""
    return single * exp_above(single - 1)


@dataclass(frozen=True, kw_only=True)
class CountersGuarantee(Guarantee):
    """What reports about several counters spend when the counters of a device have a bounded sum."""

    single: Guarantee
    counters: int
    limit: int

    @property
    def unbounded(self) -> float:
        """t·ε': a report's level if the counters of a device could add up to anything; rounded up."""
        return nextafter(self.counters * self.single.first_report, inf)

    @property
    def bounded_sum_epsilon(self) -> float:
        """ε'' of one report, rounded up."""
        return log_above(bounded_sum_ratio(self.single.first_ratio))

    @property
    def per_memoised_input(self) -> float | None:
        """t·ε∞, rounded up, without the logarithm of a long number."""
        level = self.single.per_memoised_input
        return None if level is None else nextafter(self.counters * level, inf)

    @property
    def unchanged_values(self) -> float | None:
        """All reports of a device whose counters never change, memoised: Theorem 5 at ε∞; rounded up."""
        ratio, most = self.single.memoised_ratio, self.per_memoised_input
        return None if ratio is None or most is None else min(most, log_above(bounded_sum_ratio(ratio)))

    @property
    def assumption(self) -> str:
        """What the first report's level rests on, in words."""
        return (
            f"The counters of one device add up to at most {self.limit} in an epoch. Devices refuse to "
            "report others; for devices that would not, each counter spends its own level."
        )

    def as_record(self) -> dict[str, object]:
        return {
            **super().as_record(),
            "assumption": self.assumption,
            "counters": self.counters,
            "theorem_5": self.bounded_sum_epsilon,
            "first_report_without_assumption": self.unbounded,
            "unchanged_values": self.unchanged_values,
        }


def counters_guarantee(single: Guarantee, counters: int, limit: int) -> CountersGuarantee:
    """The guarantee of ``counters`` equal bits about counters that add up to at most ``limit``."""
    # Both are bounds, so a float may choose.
    if counters * single.first_report <= bounded_sum_epsilon(single.first_report):
        first = single.first_ratio**counters
    else:
        first = bounded_sum_ratio(single.first_ratio)
    memoised, inputs, cap = single.memoised_ratio, single.memoised_inputs, single.cap_over_inputs
    return CountersGuarantee(
        first,
        single.inputs,
        None if memoised is None else memoised**counters,
        None if inputs is None else counters * inputs,
        None if cap is None else nextafter(counters * cap, inf),
        single=single,
        counters=counters,
        limit=limit,
    )
