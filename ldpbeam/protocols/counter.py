"""What the server counts: columns of payloads become an accumulator of integers, which adds up."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ldpbeam.arrays import Bytes, Ints
from ldpbeam.protocols.complete import require_complete


class Counter(ABC):
    """Checks payloads, adds them up, and reads what was added up.

    There are two int64 accumulators: ``counts``, which estimates follow from, and ``signs``, which shows of
    forged reports what the first does not. Most protocols have no cells in the second.
    """

    def __init_subclass__(cls) -> None:
        """Raises TypeError for a class that lacks a method."""
        super().__init_subclass__()
        require_complete(cls)

    # Payloads

    @abstractmethod
    def check(self, payloads: Bytes) -> Bytes:
        """A ``CheckCode``, uint8 (n,), per payload (n, payload_size). It agrees with ``Device.decode``."""

    @abstractmethod
    def add(self, payloads: Bytes, counts: Ints) -> None:
        """Add checked payloads (n, payload_size) into ``counts`` (counts_length,) in place."""

    def add_signs(self, payloads: Bytes, signs: Ints) -> None:
        """Add checked payloads (n, payload_size) into ``signs`` (signs_length,) in place."""
        return

    def add_reports(self, payloads: Bytes, counts: Ints, signs: Ints) -> None:
        """:meth:`add` and :meth:`add_signs`."""
        self.add(payloads, counts)
        self.add_signs(payloads, signs)

    # Accumulators

    @property
    @abstractmethod
    def counts_length(self) -> int:
        """Cells of ``counts``."""

    @property
    def signs_length(self) -> int:
        """Cells of ``signs``."""
        return 0

    def support_counts(self, counts: Ints) -> Ints:
        """What was counted for each number of a result, int64, from ``counts``: here the cells themselves."""
        return counts

    def report_counts(self, counts: Ints, reports: int) -> int | Ints:
        """Reports behind each number of a result: all of them, or int64 of those that sampled the value."""
        return reports

    def part_counts(self, counts: Ints, reports: int) -> tuple[tuple[Ints, int], ...]:
        """The cells and the number of reports of each attribute."""
        return ((counts, reports),)

    def part_signs(self, signs: Ints) -> tuple[Ints, ...]:
        """The cells of each attribute in ``signs``; empty where nobody counted them."""
        return (signs,)

    # Signs of forged reports

    @property
    def extremes(self) -> tuple[float, float] | None:
        """P(a report is counted in a cell of ``signs``) for both cells, for the value where it is largest.

        None where ``signs`` holds something else.
        """
        return None

    def seed_cells(self, counts: Ints, signs: Ints) -> tuple[Ints, float] | None:
        """How often each of some equally likely choices was made that devices draw without their value.

        Returns:
            Counts int64 (cells,), and the factor by which their squared deviations exceed those of a
            multinomial; None where nothing of that kind is drawn, or it is not counted.
        """
        return None

    # Cost

    @abstractmethod
    def steps(self, reports: float) -> float:
        """Additions or comparisons that so many reports take, and reading the accumulator once."""
