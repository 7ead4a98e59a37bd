"""What the server knows about forged reports: figures of one report that no device's value changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ldpbeam.support import SupportProbabilities


class AddedNoise(NamedTuple):
    """What a report that is a number adds to its value 0 .. maximum.

    Attributes:
        maximum: the largest value, m.
        margin: a report is clamped to −margin .. m + margin.
        variance: of the noise before it is clamped.
    """

    maximum: int
    margin: int
    variance: float


class SupportedLaw(NamedTuple):
    """How many values a report supports, whatever its device holds: B(1, first) + B(rest, other).

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
        ends: P(a report supports a value) where all devices hold it, and where none does. Of a mean of bits,
            P(a report is 1) where all hold m, and where all hold 0. None of other means.
        added_noise: what reports add to the value where they are numbers.
        most_supported: values that one admitted report supports at most; 0 of a mean.
        asked_about: values that one report speaks about; 0 of a mean.
        supported_variance: a bound on the variance of the number of values that a report supports, whatever
            the value; None where that number is not random.
        supported_law: the exact law of that number, where it is the same for every value.
    """

    ends: SupportProbabilities | None = None
    added_noise: AddedNoise | None = None
    most_supported: int = 0
    asked_about: int = 0
    supported_variance: float | None = None
    supported_law: SupportedLaw | None = None


def widest_variance(domain_size: int, support: SupportProbabilities) -> float:
    """The largest variance that a number of supported values can have, from 0 to k and with its known mean.

    The mean is own + (k − 1)·other; of all numbers between 0 and k with that mean, the one that is always 0
    or k varies most.
    """
    mean = float(support.own + (domain_size - 1) * support.other)
    return mean * (domain_size - mean)
