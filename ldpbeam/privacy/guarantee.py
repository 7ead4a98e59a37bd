"""The privacy figures of one device, none of them bare (docs/maths.md correction 5).

A longitudinal protocol has no single ε. The first report spends at most ε1; all reports about one unchanged
value spend at most ε∞, for ever; a device that goes through many memoised inputs spends ε∞ for each of them,
up to a cap. The cap is about the *inputs*, which are values for some protocols only
(:class:`MemoisedInputs`), and it compares sequences of inputs that change, and come back, at the same epochs
(:mod:`ldpbeam.privacy.loss`).
:mod:`ldpbeam.promise.statements` says all of this to people.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from math import inf, nextafter

from ldpbeam.channels.exact import log_above, log_above_power

CHANGE_IS_PROVED = "Changes. Two different reports of a device prove that its value changed."
"""Of devices that send what they memoised as it is."""


class MemoisedInputs(Enum):
    """The things that a device memoises an answer for, by the noun that people read."""

    NONE = "report"
    """Nothing is memoised."""
    VALUES = "value"
    SYMBOLS = "hash symbol"
    """Several values share one."""
    BUCKETS = "bucket"
    """The buckets that a device samples, and one for all others."""
    POINTS = "rounding point"
    """A value is rounded to one of two, by an offset that the device keeps secret."""
    MIXED = "memoised input"
    """Attributes whose protocols memoise different things."""


@dataclass(frozen=True)
class Guarantee:
    """Worst-case likelihood ratios, exact; the properties give their logarithms, rounded up."""

    first_ratio: Fraction
    inputs: MemoisedInputs
    memoised_ratio: Fraction | None = None
    memoised_inputs: int | None = None
    cap: float | None = None
    reports: int | None = None

    def __post_init__(self) -> None:
        """Raises ValueError where inputs are memoised and have no name, or the other way round."""
        if (self.memoised_ratio is None) != (self.inputs is MemoisedInputs.NONE):
            raise ValueError(f"a level of memoised inputs and inputs {self.inputs.name} exclude each other")

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
    def unchanged_values(self) -> float | None:
        """The most that all reports tell while no value changes, rounded up; None for one-round protocols."""
        return self.per_memoised_input

    @property
    def cap_over_inputs(self) -> float | None:
        """Memoised inputs times ε∞: the lifetime cap for two sequences that are each other's renaming."""
        if self.memoised_ratio is None or self.memoised_inputs is None:
            return None
        if self.cap is not None:
            return self.cap
        return self.memoised_inputs * log_above(self.memoised_ratio)

    @property
    def lifetime_cap(self) -> float:
        """The most that can ever be spent; for one-round protocols infinite, unless reports are limited."""
        if self.memoised_ratio is None and self.reports is not None:
            return log_above_power([(self.first_ratio, self.reports)])
        cap = self.cap_over_inputs
        return inf if cap is None else cap

    def as_record(self) -> dict[str, object]:
        cap = self.cap_over_inputs
        about_values = self.inputs is MemoisedInputs.VALUES and self.cap is None
        return {
            "first_report": self.first_report,
            "per_report": self.memoised_ratio is None,
            "per_memoised_input": self.per_memoised_input,
            "inputs": None if self.inputs is MemoisedInputs.NONE else f"{self.inputs.value}s",
            "memoised_inputs": self.memoised_inputs,
            "cap_over_inputs": cap,
            "cap_over_values": cap if about_values else None,
        }
