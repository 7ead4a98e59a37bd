"""The privacy figures of one device, none of them bare (docs/maths.md correction 5).

A longitudinal protocol has no single ε. The first report spends at most ε1; whatever is said about one
memoised input, for ever, spends at most ε∞; a device that goes through many values spends ε∞ per distinct
memoised input, up to a cap. That cap speaks about *which* inputs: it does not cover *when* they changed, or
came back (:mod:`ldpbeam.privacy.loss`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, nextafter

from ldpbeam.channels.exact import log_above


@dataclass(frozen=True)
class Guarantee:
    """Worst-case likelihood ratios, exact; the properties give their logarithms, rounded up.

    Attributes:
        first_ratio: worst ratio of one report.
        memoised_ratio: worst ratio of all reports about one memoised input; None for one-round protocols.
        memoised_inputs: how many inputs can be memoised in a lifetime (k, g, ...); None likewise.
        cap: lifetime cap of several attributes, whose inputs do not all have the level above; else None.
        reports: how many reports a device makes in its life at most; None without a limit.
    """

    first_ratio: Fraction
    memoised_ratio: Fraction | None = None
    memoised_inputs: int | None = None
    cap: float | None = None
    reports: int | None = None

    def within(self, reports: int) -> Guarantee:
        """The guarantee of devices that make so many reports in their lives, and memoise no more inputs."""
        inputs, cap, level = self.memoised_inputs, self.cap, self.per_memoised_input
        if cap is not None and level is not None:
            # A report is about one input of each attribute, and the level that of all of them together.
            cap = min(cap, nextafter(reports * level, inf))
        elif inputs is not None:
            inputs = min(inputs, reports)
        return replace(self, memoised_inputs=inputs, cap=cap, reports=reports)

    @property
    def first_report(self) -> float:
        """ε1 as the integers really give it, rounded up."""
        return log_above(self.first_ratio)

    @property
    def per_memoised_input(self) -> float | None:
        """ε∞ as the integers really give it, rounded up."""
        return None if self.memoised_ratio is None else log_above(self.memoised_ratio)

    @property
    def cap_over_values(self) -> float | None:
        """Memoised inputs times ε∞: the lifetime cap for two sequences that are each other's renaming."""
        if self.memoised_ratio is None or self.memoised_inputs is None:
            return None
        if self.cap is not None:
            return self.cap
        return self.memoised_inputs * log_above(self.memoised_ratio)

    @property
    def not_capped(self) -> str:
        """What the figures above do not promise, in words."""
        if self.reports is not None and (self.memoised_ratio is None or self.reports == 1):
            return (
                "Another collection, or another version of this one: what a device reports for it adds to "
                "this. Within the collection nothing is left out, however often values change."
            )
        if self.memoised_ratio is None:
            return (
                "Nothing is memoised: each report spends the first-report level again, so t reports spend "
                "t times as much, without end."
            )
        return (
            "When a memoised input changed or came back. The cap compares sequences that change, and return "
            "to an earlier input, at the same epochs. Others can be told apart beyond it, more with every "
            "report, and two reports may already lose more than twice the first or than the cap: the loss "
            "between any two sequences says how much."
        )

    def as_record(self) -> dict[str, object]:
        """The figures for run.json and the page."""
        return {
            "first_report": self.first_report,
            "per_report": self.memoised_ratio is None,
            "per_memoised_input": self.per_memoised_input,
            "memoised_inputs": self.memoised_inputs,
            "cap_over_values": self.cap_over_values,
            "not_capped": self.not_capped,
        }
