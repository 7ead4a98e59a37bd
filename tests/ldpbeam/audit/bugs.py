"""Planted bugs: a small client with one thing wrong, the collection that shows it, and the checks that do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ldpbeam.audit.checks.outcome import Check
from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.randomness import FULL, Randomness
from tests.ldpbeam.audit.small import Small


@dataclass(frozen=True)
class Planted:
    """A bug."""

    kind: type[Small]
    collection: str
    checks: tuple[Check, ...]
    draws: int


def with_round(protocol: Any, **channel: Any) -> LocalProtocol[Any]:
    """The protocol with another channel in one of its rounds."""
    changed: LocalProtocol[Any] = replace(protocol, rounds=replace(protocol.rounds, **channel))
    return changed


BUGS: list[Planted] = []


def planted(collection: str, *checks: Check, draws: int = 3000) -> Callable[[type[Small]], type[Small]]:
    """Put a bug into the list."""

    def listed(kind: type[Small]) -> type[Small]:
        BUGS.append(Planted(kind, collection, checks, draws))
        return kind

    return listed


# Channels


@dataclass(frozen=True)
class Lies(SymbolChannel):
    """Draws with another keep probability, or lies otherwise."""

    way: str = ""

    def draw(self, symbol: int, randomness: Randomness) -> int:
        word = randomness.word(self.total)
        if self.way == "swapped":
            # q in the place of p: the true symbol as rarely as another one should come.
            if word < self.each:
                return symbol
            lie = (word - self.each) * (self.size - 1) // (self.total - self.each)
            return lie + (lie >= symbol)
        if word < self.keep:
            return symbol
        if self.way == "may be the truth":
            return randomness.word(self.size)
        lie = (word - self.keep) // self.each
        if self.way == "neighbour":
            return (symbol + 1) % self.size
        return lie + (lie >= symbol)


@planted("grr", Check.MATCH, Check.SUPPORT)
class LieIsTheNeighbour(Small):
    """Every lie is the next value: ε is lost, since others are impossible."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.rounds.instant
        return with_round(protocol, instant=Lies(c.size, c.keep, c.each, "neighbour"))


@planted("grr", Check.BOUND, Check.MATCH)
class TwiceTheLevel(Small):
    """ε doubled."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.rounds.instant
        return with_round(protocol, instant=SymbolChannel.from_ratio(c.size, c.ratio**2))


@planted("sue", Check.MATCH, Check.BOUND)
class LastBitNeverRandomised(Small):
    """A loop that ends one bit too early."""

    def response(self, value: int, epoch: int) -> int:
        last = self.protocol.domain_size - 1
        drawn = super().response(value, epoch)
        return drawn & ~(1 << last) | (value == last) << last


# Two rounds


@planted("l_grr", Check.BOUND, Check.SEQUENCE_MATCH)
class SecondRoundSkipped(Small):
    """The permanent answer is sent as it is: ε∞ in the first report."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.rounds.instant
        return with_round(protocol, instant=SymbolChannel(c.size, FULL - c.size, 1))


@planted("l_grr", Check.MATCH, Check.BOUND)
class FirstRoundSkipped(Small):
    """The truth is memoised; with time the second round averages out."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        c = protocol.rounds.permanent
        return with_round(protocol, permanent=SymbolChannel(c.size, FULL - c.size, 1))


@planted("loloha", Check.BOUND, Check.MATCH)
class LevelsSwapped(Small):
    """The second round at the level that the permanent one should have."""

    def made(self, protocol: Any) -> LocalProtocol[Any]:
        longer = SymbolChannel.from_epsilon(protocol.g, 6.0)
        return with_round(protocol, instant=longer)


@planted("clear", Check.SEQUENCE_BOUND, Check.SEQUENCE_MATCH)
class MemoIgnored(Small):
    """Every report draws its permanent answer again: t reports lose t·ε1."""

    def permanent_label(self, label: str, key: int) -> str:
        return f"{super().permanent_label(label, key)} in {self.epoch}"


@planted("l_grr", Check.SEQUENCE_MATCH)
class MemoOfTheFirstValueForEver(Small):
    """One permanent answer, drawn for the first value, whatever the value is later."""

    first: int | None = None

    def response(self, value: int, epoch: int) -> Any:
        if self.first is None:
            self.first = value
        return super().response(self.first, epoch)


@planted("l_osue", Check.SEQUENCE_MATCH)
class SameNoiseInEveryEpoch(Small):
    """The second round is drawn once."""

    def epoch_label(self, epoch: int) -> str:
        return "every epoch"


@planted("dbitflip_pm", Check.SEQUENCE_MATCH)
class BitsDrawnForEveryReport(MemoIgnored):
    """dBitFlipPM without its memo: reports can be averaged."""
