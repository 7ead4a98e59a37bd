"""Figures by which forged reports show: of one report, and the same for every value of its device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ldpbeam.support import SupportProbabilities


class AddedNoise(NamedTuple):
    """The noise that a report adds to a value 0 .. maximum, where reports are numbers.

    Attributes:
        maximum: the largest value, m.
        margin: a report is clamped to −margin .. m + margin.
        variance: of the noise before it is clamped.
    """

    maximum: int
    margin: int
    variance: float


class SupportedLaw(NamedTuple):
    """The number of values that a report supports, of any device: B(1, first) + B(rest, other).

    Attributes:
        first: probability.
        rest: number of further bits.
        other: probability of each of them.
    """

    first: float
    rest: int
    other: float


@dataclass(frozen=True, kw_only=True)
class Forgery:
    """Figures behind :mod:`ldpbeam.indicators` and :mod:`ldpbeam.promise.poisoning`.

    Attributes:
        ends: P(a report supports a value) where all devices hold it, and where none does; of a distribution,
            where none holds a value of its stretch. Of a mean of bits, P(a report is 1) where all hold m, and
            where all hold 0. None of other means.
        stretch_ends: of a distribution, the expected number of the reported stretch, over g − 1, where all
            devices hold the last value, and where all hold the first one.
        added_noise: the noise in a report, where reports are numbers.
        most_supported: values that one admitted report supports at most; 0 of a mean.
        asked_about: values that one report speaks about; 0 of a mean.
        supported_variance: a bound, for every value, on the variance of the number of values that a report
            supports; None where that number is not random.
        supported_law: the exact law of that number, where it is the same for every value.
    """

    ends: SupportProbabilities | None = None
    stretch_ends: SupportProbabilities | None = None
    added_noise: AddedNoise | None = None
    most_supported: int = 0
    asked_about: int = 0
    supported_variance: float | None = None
    supported_law: SupportedLaw | None = None


def widest_variance(domain_size: int, support: SupportProbabilities) -> float:
    """The largest variance that a number of supported values can have, from 0 to k and with its known mean.

    The mean is own + (k − 1)·other. Of all random numbers from 0 to k with that mean, one that is always 0 or
    k has the largest variance.
    """
    mean = float(support.own + (domain_size - 1) * support.other)
    return mean * (domain_size - mean)
