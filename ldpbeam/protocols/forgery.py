"""Figures by which forged reports show: of one report, and the same for every value of its device."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from ldpbeam.support import SupportProbabilities


class Numbers(NamedTuple):
    """Reports that are numbers: least .. most, on average low about the value 0 and high about the largest.

    The mean rises evenly from low to high; ``variance`` is the largest that one value has.
    """

    least: int
    most: int
    low: Fraction
    high: Fraction
    variance: float


class SupportedLaw(NamedTuple):
    """The number of values that a report supports, of any device: B(1, first) + B(rest, other)."""

    first: float
    rest: int
    other: float


@dataclass(frozen=True, kw_only=True)
class Forgery:
    """Figures behind :mod:`ldpbeam.indicators` and :mod:`ldpbeam.promise.poisoning`.

    A report is asked about ``asked_about`` values and supports ``most_supported`` of them at most, with
    ``supported_variance`` as the variance of their number.
    """

    ends: SupportProbabilities | None = None
    stretch_ends: SupportProbabilities | None = None
    numbers: Numbers | None = None
    most_supported: int = 0
    asked_about: int = 0
    supported_variance: float | None = None
    supported_law: SupportedLaw | None = None


def widest_variance(domain_size: int, support: SupportProbabilities) -> float:
    """The largest variance that a number of supported values can have, from 0 to k and with its known
    mean."""
    mean = float(support.own + (domain_size - 1) * support.other)
    return mean * (domain_size - mean)
