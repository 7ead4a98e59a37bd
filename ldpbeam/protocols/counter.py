"""The server's counting: columns of payloads become an accumulator of integers, which adds up."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ldpbeam.arrays import Bytes, Ints
from ldpbeam.protocols.completeness import require_complete
from ldpbeam.support import Support


class Counter(ABC):
    """Checks payloads, adds them up, and reads the sums.

    There are two int64 accumulators. Estimates follow from ``counts``. ``signs`` shows forged reports that
    ``counts`` does not show; most protocols have no cells in it.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        require_complete(cls)

    # Payloads

    @abstractmethod
    def check(self, payloads: Bytes) -> Bytes:
        """A ``CheckCode``, uint8 (n,), per payload (n, payload_size), as ``ProtocolDevice.decode`` has it."""

    @abstractmethod
    def add(self, payloads: Bytes, counts: Ints) -> None:
        """Add checked payloads (n, payload_size) into ``counts`` (counts_length,) in place."""

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        """Add checked payloads (n, payload_size) into ``signs`` (signs_length,) in place."""
        return

    def add_reports(self, payloads: Bytes, counts: Ints, signs: Ints) -> None:
        """:meth:`add` and :meth:`add_signs`, both in place.

        Args:
            payloads: uint8 (n, payload_size), checked.
            counts: int64 (counts_length,).
            signs: int64 (signs_length,).
        """
        self.add(payloads, counts)
        self.add_signs(payloads, signs)

    # Accumulators

    @property
    @abstractmethod
    def counts_length(self) -> int:
        """The number of cells of ``counts``."""

    @property
    def signs_length(self) -> int:
        """The number of cells of ``signs``; 0 where none are counted."""
        return 0

    def zero(self) -> Support:
        """The accumulators of no report."""
        return Support.zero(self.counts_length, self.signs_length)

    def support_counts(self, counts: Ints) -> Ints:
        """The count behind each number of a result, int64, from ``counts``: here the cells themselves."""
        return counts

    def report_counts(self, counts: Ints, reports: int) -> int | Ints:
        """Reports behind each number of a result: all of them, or int64 of those that sampled the value."""
        return reports

    def part_counts(self, counts: Ints, reports: int) -> tuple[tuple[Ints, int], ...]:
        """The cells and the number of reports of each attribute."""
        return ((counts, reports),)

    def part_signs(self, signs: Ints) -> tuple[Ints, ...]:
        """The cells of each attribute in ``signs``; empty where signs were not counted."""
        return (signs,)

    # Signs of forged reports

    @property
    def extremes(self) -> tuple[float, float] | None:
        """P(a report adds to a cell of ``signs``), for both cells, with the value that makes it largest.

        None where ``signs`` has another meaning.
        """
        return None

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float] | None:
        """Counts of equally likely choices that devices draw without looking at their value.

        Returns:
            Counts int64 (cells,), and the factor by which their squared deviations exceed those of a
            multinomial; None where devices draw no such choice, or it is not counted.
        """
        return None

    # Cost

    @abstractmethod
    def steps(self, reports: float) -> float:
        """Additions or comparisons: of counting so many reports, and of reading the accumulator once."""
