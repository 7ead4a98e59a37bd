"""The exact law of reports, in rational numbers, for certificates, audits and promises.

Devices and pipelines do not use it. Laws of the usual shapes need a line for each method
(:mod:`ldpbeam.protocols.history_model`, :mod:`ldpbeam.privacy.guess_laws`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from ldpbeam.channels.channel import BitChannel, Row
from ldpbeam.channels.rounds import Rounds
from ldpbeam.privacy.randomiser import Randomiser
from ldpbeam.protocols.completeness import require_complete
from ldpbeam.protocols.history_model import Model, Stratum

Response = TypeVar("Response")

Event = tuple[str, Callable[[Any], bool], Fraction]
"""Name of an event, whether a response shows it, and its probability."""

Kinds = tuple[tuple[float, float], ...]
"""For each kind of device: its probability, and P(two of its reports are equal)."""


@dataclass(frozen=True)
class ShownAnswer:
    """A random answer that the reports of a device show, symbol by symbol."""

    name: str
    chances: tuple[float, ...]
    rates: tuple[tuple[float, ...], ...]
    memoised: bool
    symbol: Callable[[Any], int | None]
    input: Callable[[Any], Any] = lambda response: None
    held: bool = True


class Law(ABC, Generic[Response]):
    """Probabilities of reports given the value, and their consequences.

    Attributes:
        domain_size: k; the law of several attributes has none, its parts have theirs.
    """

    domain_size: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        require_complete(cls)

    @abstractmethod
    def likelihood(self, response: Response, value: Any) -> Fraction:
        """P(first report = response | value), given the seed where the response carries one."""

    def responses(self) -> Iterator[Response]:
        """Every possible response, for exact checks on small domains.

        Raises:
            NotImplementedError: there are too many (128-bit seeds).
        """
        raise NotImplementedError(f"the responses behind {type(self).__name__} cannot be enumerated")

    @abstractmethod
    def model(self, pair: tuple[Any, Any]) -> Model:
        """Responses as symbols that tell the two values apart, and the law of histories of symbols.

        Args:
            pair: two values, which may be the same; of several attributes, both differ in each of them or in
                none.
        """

    @abstractmethod
    def best_guess(self, reports: int) -> float:
        """P(the best guess of a device's value is right), from so many reports about the value, 1 or more.

        All values are equally likely, and the device holds one of them throughout. docs/privacy.md.
        """

    def guess_is_exact(self, reports: int) -> bool:
        """Whether :meth:`best_guess` is exact; else its docstring says how far off it may be."""
        return True

    # What audits look at besides the model

    def spent(self) -> tuple[Fraction | None, Fraction]:
        """The worst likelihood ratios of a memoised answer, where there is one, and of a first report.

        By default the ratio between the first value and the last, over the symbols of :meth:`model`. This is
        exact if each symbol stands for responses of one ratio and no two values are further apart.
        """
        all_strata = self.model((0, self.domain_size - 1)).strata
        strata = [one for one in all_strata if isinstance(one, Stratum) and one.probability]
        memoised = [_worst(*one.answers) for one in strata if one.memoised]
        first = (_worst(one.first_symbol(0), one.first_symbol(1)) for one in strata)
        return max(memoised, default=None), max(first)

    def equal_responses(self, value: Any) -> Kinds | None:
        """P(two reports of a device about one value are equal); None where only symbols are compared."""
        return None

    def drawn(self) -> Iterator[Event]:
        """Events, visible in reports, of the draws of a device that do not depend on its value."""
        return iter(())

    def shown_answers(self, value: Any, most: int) -> Iterator[ShownAnswer]:
        """Answers that a device must not share between two collections, besides the symbols of :meth:`model`.

        Args:
            value: that the device holds.
            most: where a device draws an answer for each value, so many values at most, evenly spread.
        """
        return iter(())

    # What a shuffler adds (docs/privacy.md)

    def one_epoch(self, *, renamed: bool, alone: bool) -> Randomiser | None:
        """The randomiser from a device's value to one report; None where nothing is stated.

        Args:
            renamed: whether the shuffler renames the symbols of every report.
            alone: whether every device sends one report in its life.
        """
        return None

    def many_epochs(self, *, renamed: bool) -> Randomiser | None:
        """The randomiser of one of many reports of a device with any values; None where nothing is stated."""
        return self.one_epoch(renamed=renamed, alone=False)


class FrequencyLaw(Law[Response], ABC):
    @abstractmethod
    def supports(self, response: Response, value: int) -> bool:
        """Whether the response supports the value: the slow definition of counting."""


def evenly_chosen(size: int, most: int) -> list[int]:
    """At most so many of 0 .. size − 1, evenly spread, with both ends."""
    if size <= most:
        return list(range(size))
    return sorted({round(i * (size - 1) / (most - 1)) for i in range(most)})


def bit_answer(
    about: int, held: int, rounds: Rounds[BitChannel], bit: Callable[[Any], int | None]
) -> ShownAnswer:
    """The answer about one value where a device draws a bit for each."""
    first = rounds.first
    one = float(first.own if about == held else first.other)
    rates: tuple[tuple[float, ...], ...] = ((0.0, 1.0), (1.0, 0.0))
    if rounds.permanent is not None and rounds.instant is not None:
        rates = tuple((1 - float(p), float(p)) for p in (rounds.instant.own, rounds.instant.other))
    name = f"bits of bucket {about}, {'held' if about == held else 'not held'},"
    return ShownAnswer(name, (one, 1 - one), rates, rounds.memoised, bit, held=about == held)


def _worst(first: Row, second: Row) -> Fraction:
    """The largest ratio of two probabilities of one thing, either way round."""
    return max(max(a / b, b / a) for a, b in zip(first, second, strict=True) if a or b)
