"""Stage 3 of 5, support: how many reports support each value.

A report *supports* a value when it is evidence for it. The server keeps integers only: the number of reports
and the protocol's counts, which add up in any order. Probabilities that turn them into frequencies are two
exact rationals per protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

from ldpbeam.arrays import Bytes, Ints

LARGE_TABLE = 1 << 20
"""Cells of an accumulator from which on reports wait for it, see :class:`UncountedReports`: 8 MiB."""


@dataclass(frozen=True)
class SupportProbabilities:
    """The two numbers that describe a frequency protocol (docs/maths.md section 1)."""

    own: Fraction
    other: Fraction
    sampled: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        """Raises ValueError for no probabilities, or own not above other: nothing could be estimated."""
        if not 0 <= self.other < self.own <= 1:
            raise ValueError(f"needs 0 <= other < own <= 1, not own={self.own}, other={self.other}")
        if not 0 < self.sampled <= 1:
            raise ValueError(f"needs 0 < sampled <= 1, not {self.sampled}")

    @property
    def gap(self) -> Fraction:
        """own − other: what one report moves an estimate by, times n."""
        return self.own - self.other

    @cached_property
    def chances(self) -> tuple[float, float, float, float]:
        """own, other, gap and the share that is not asked, as floats: made once, as fractions are slow."""
        return float(self.own), float(self.other), float(self.gap), 1 - float(self.sampled)

    @property
    def floor(self) -> Fraction:
        """n·V*: the variance of one report at frequency 0, other(1−other)/(own−other)², exact."""
        return self.other * (1 - self.other) / self.gap**2

    def among(self, share: Fraction) -> SupportProbabilities:
        """The same where only a share of the population, drawn at random, reports at all."""
        return self if share == 1 else replace(self, sampled=self.sampled * share)


@dataclass(frozen=True)
class Recurrence:
    """What two memoised answers of one device have in common although its value changed in between."""

    involved: float = 0.0
    apart: float = 0.0
    apart_least: float = 0.0


class Support:
    """A commutative monoid of integer counts: zero, add a batch, merge."""

    __slots__ = ("counts", "reports", "signs")

    def __init__(self, counts: Ints, reports: int = 0, signs: Ints | None = None) -> None:
        """Own the given arrays: callers pass fresh ones."""
        import numpy as np

        self.counts = counts
        self.reports = reports
        self.signs = np.zeros(0, np.int64) if signs is None else signs

    @classmethod
    def zero(cls, length: int, signs: int = 0) -> Support:
        """The neutral element for accumulators of ``length`` cells and so many for signs."""
        import numpy as np

        return cls(np.zeros(length, np.int64), 0, np.zeros(signs, np.int64))

    @staticmethod
    def zero_of(counter: SupportCounter) -> Support:
        return counter.zero()

    def add(self, payloads: Bytes, counter: Any) -> Support:
        """Count admitted payloads, uint8 (n, payload size), into this one and return it."""
        counter.add_reports(payloads, self.counts, self.signs)
        self.reports += len(payloads)
        return self

    def merge(self, other: Support) -> Support:
        """Add another support of the same protocol into this one and return it."""
        self.counts += other.counts
        self.reports += other.reports
        self.signs += other.signs
        return self

    def copy(self) -> Support:
        return type(self).zero(self.counts.size, self.signs.size).merge(self)

    def __reduce__(self) -> tuple[Any, tuple[Any, int, Any]]:
        """Cells in the narrowest type that holds them, as pickles of a large table are copied."""
        return _widened, (narrowed(self.counts), self.reports, narrowed(self.signs))

    def __eq__(self, other: object) -> bool:
        import numpy as np

        if not isinstance(other, Support):
            return NotImplemented
        same = np.array_equal(self.counts, other.counts) and np.array_equal(self.signs, other.signs)
        return self.reports == other.reports and bool(same)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Length and number of reports; the counts are too long for a log."""
        return f"Support(reports={self.reports}, cells={self.counts.size})"


class SupportCounter(Protocol):
    """What counting takes of :class:`ldpbeam.protocols.counter.Counter`, or of a counter of slices."""

    @property
    def counts_length(self) -> int: ...

    @property
    def signs_length(self) -> int: ...

    def zero(self) -> Support:
        """The support of no report."""
        ...


class Uncounted(Protocol):
    """What an epoch's counts are made of when it is estimated."""

    @property
    def reports(self) -> int: ...

    def counted(self, counter: SupportCounter) -> Support:
        """The support that they are, in fresh memory."""
        ...


class UncountedReports:
    """Reports of one epoch whose table would be larger than they are: it is made when the epoch is
    estimated."""

    __slots__ = ("digest", "nbytes", "payloads")

    def __init__(self, digest: int, payloads: list[Bytes]) -> None:
        """Own the list; the arrays are only read."""
        self.digest = digest
        self.payloads = payloads
        self.nbytes = sum(part.nbytes for part in payloads)

    @property
    def reports(self) -> int:
        return sum(map(len, self.payloads))

    def add_to(self, counter: SupportCounter, support: Support) -> Support:
        """Count the reports into ``support``, which is given back."""
        for part in self.payloads:
            support.add(part, counter)
        return support

    def counted(self, counter: SupportCounter) -> Support:
        return self.add_to(counter, Support.zero_of(counter))


Accumulated = Support | UncountedReports
"""What is known of an epoch: counts, or the reports themselves where counts would be larger."""


def added(
    total: Accumulated | None, digest: int, payloads: Bytes, counters: Mapping[int, SupportCounter]
) -> Accumulated:
    """The accumulator with more reports: counted now, or waiting where the table would be larger."""
    counter = counters[digest]
    if total is None and not is_large(counter):
        total = Support.zero_of(counter)
    if isinstance(total, Support):
        return total.add(payloads, counter)
    return _with_waiting(total, UncountedReports(digest, [payloads.copy()]), counter)


def merged(
    total: Accumulated | None, more: Accumulated | None, counters: Mapping[int, SupportCounter]
) -> Accumulated | None:
    """The sum of two accumulators of one collection; a table once reports take half the memory of one."""
    if more is None:
        return total
    if isinstance(more, UncountedReports):
        counter = counters[more.digest]
        if isinstance(total, Support):
            return more.add_to(counter, total)
        return _with_waiting(total, more, counter)
    if isinstance(total, UncountedReports):
        total = total.counted(counters[total.digest])
    return more.copy() if total is None else total.merge(more)


def _with_waiting(
    total: UncountedReports | None, more: UncountedReports, counter: SupportCounter
) -> Accumulated:
    total = total or UncountedReports(more.digest, [])
    total.payloads += more.payloads
    total.nbytes += more.nbytes
    enough = 4 * (counter.counts_length + counter.signs_length)
    return total if total.nbytes < enough else total.counted(counter)


def is_large(counter: SupportCounter) -> bool:
    """Whether the accumulator takes so much memory that reports had better wait for it."""
    return counter.counts_length + counter.signs_length >= LARGE_TABLE


def narrowed(cells: Ints) -> Any:
    """Cells in the narrowest of uint8, uint16, uint32 and int64 that holds all of them, little-endian."""
    top, low = int(cells.max(initial=0)), int(cells.min(initial=0))
    code = 3 if low < 0 else sum(top >= limit for limit in (1 << 8, 1 << 16, 1 << 32))
    return cells.astype(NARROW_TYPES[code])


NARROW_TYPES = ("<u1", "<u2", "<u4", "<i8")
"""Those of :func:`narrowed`."""


def _widened(counts: Any, reports: int, signs: Any) -> Support:
    import numpy as np

    return Support(counts.astype(np.int64), reports, signs.astype(np.int64))
