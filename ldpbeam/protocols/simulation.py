"""The simulation's side of a protocol: many devices at once, with the random words of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ldpbeam.arrays import Bytes, Ints, Uints
from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.channels.rounds import Rounds
from ldpbeam.protocols.completeness import require_complete
from ldpbeam.randomness import FULL

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class WordSpec:
    """How many random words a step takes, and the limit each lies below."""

    count: int
    limit: int = FULL
    bits: bool = False
    rising: bool = False

    @property
    def limits(self) -> list[int]:
        return [self.limit + i * self.rising for i in range(self.count)]


class WordPlan(NamedTuple):
    """The random words that a device draws, in the order seed, permanent, instant."""

    instant: WordSpec
    permanent: WordSpec | None = None
    seed: WordSpec | None = None
    seed_per_report: bool = False


class FleetWords(Protocol):
    """Random words for a group of simulated devices, one row per device; equal calls give equal words."""

    def seed(self, spec: WordSpec) -> Uints:
        """Words of the hash seed, shape (n, count)."""
        ...

    def permanent(self, spec: WordSpec) -> Uints:
        """Words of the permanent round, for inputs that are new. Shape (n, count)."""
        ...

    def instant(self, spec: WordSpec) -> Uints:
        """Words of the round drawn for every report. Shape (n, count)."""
        ...

    def permanent_bits(self, held: Bytes, rows: Ints, spec: WordSpec, channel: BitChannel) -> Bytes:
        """Packed bits after the permanent round, uint8 (n, bytes).

        Bit v is 1 where word v of the device lies below the channel's weight for bit v of ``held``.

        Args:
            held: uint8 (n, bytes), packed bits before the round; may be overwritten.
            rows: (n,), line i of ``held`` belongs to the device in row ``rows[i]`` of the group.
            spec: the words; one per bit.
            channel: flips one bit.
        """
        ...

    def instant_bits(self, held: Bytes, spec: WordSpec, channel: BitChannel) -> Bytes:
        """The same in the round drawn for every report.

        Args:
            held: uint8 (n, bytes), one line for every row of the group; may be overwritten.
            spec: the words; one per bit.
            channel: flips one bit.
        """
        ...

    def part(self, index: int, rows: Ints | None = None) -> FleetWords:
        """Words of one attribute of several, independent of all others, for some of the rows."""
        ...


class FleetAnswers(Protocol):
    """Permanent answers of a fleet, by 64-bit key; each key is drawn once and kept."""

    def recall(self, keys: Ints, draw: Callable[[Ints], NDArray[Any]]) -> NDArray[Any]:
        """Answers for distinct ``keys`` (n,); ``draw(rows)`` makes the answers of the rows with new keys.

        Symbols are int64 (n,), packed bits uint8 (n, answer_bytes).
        """
        ...

    def part(self, index: int) -> FleetAnswers: ...


class Simulation(ABC):
    """The same function of the same random words as a device's, for columns of devices."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        require_complete(cls)

    @property
    @abstractmethod
    def word_plan(self) -> WordPlan:
        """The random words that a device draws."""

    @property
    def answer_bytes(self) -> int | None:
        """Bytes of a memoised answer that is packed bits; None where it is a symbol (an int64)."""
        return None

    @abstractmethod
    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        """Payloads of distinct devices, uint8 (n, payload_size).

        Equal, bit for bit, to the payloads of ``privatize`` and ``encode`` of a device with the same words in
        the order seed, permanent, instant.

        Args:
            devices: (n,), indices; each device once.
            values: (n,), or (n, attributes).
            words: random words of the devices.
            memo: permanent answers of the fleet.
        """


@dataclass(frozen=True)
class FreshSimulation(Simulation):
    """A report is a number that a device draws from its value and one word, which lies below a limit."""

    draw: Callable[[Ints, Uints], Ints]
    limit: int
    payload_size: int

    @property
    def word_plan(self) -> WordPlan:
        return WordPlan(WordSpec(1, self.limit))

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        import numpy as np

        from ldpbeam.kernels import symbols

        drawn = self.draw(values, words.instant(self.word_plan.instant)[:, 0])
        return symbols.pack(drawn.astype(np.uint64), self.payload_size)


def draw_symbols(
    rounds: Rounds[SymbolChannel],
    plan: WordPlan,
    devices: Ints,
    inputs: Ints,
    words: FleetWords,
    memo: FleetAnswers,
) -> Ints:
    """The symbols of reports, int64 (n,), from the inputs of devices: one word for each round of each
    device."""
    permanent, once, answers = rounds.permanent, plan.permanent, inputs
    if permanent is not None and once is not None:

        def draw(rows: Ints) -> Ints:
            return permanent.draw_many(inputs[rows], words.permanent(once)[rows, 0])

        answers = memo.recall(devices * permanent.size + inputs, draw)
    instant = rounds.instant
    return answers if instant is None else instant.draw_many(answers, words.instant(plan.instant)[:, 0])


def draw_bits(
    rounds: Rounds[BitChannel],
    plan: WordPlan,
    keys: Ints,
    inputs: Ints,
    words: FleetWords,
    memo: FleetAnswers,
) -> Bytes:
    """The packed bits of reports, uint8 (n, bytes): a word for each bit and round of each device."""
    from ldpbeam.kernels import bits

    permanent, once, instant = rounds.permanent, plan.permanent, rounds.instant
    if permanent is None or once is None:
        answers = bits.one_hot(inputs, plan.instant.count)
    else:

        def draw(rows: Ints) -> Bytes:
            return words.permanent_bits(bits.one_hot(inputs[rows], once.count), rows, once, permanent)

        answers = memo.recall(keys, draw)
    return answers if instant is None else words.instant_bits(answers, plan.instant, instant)
