"""What time it is, and up to when no message is missing: the local engine's watermark.

A machine's clock can be wrong: ahead, behind, or right again after a jump. An epoch that was closed by a
wrong clock stays closed, so no single reading decides. Three witnesses are compared: the wall clock, a steady
clock that never jumps but does not know the date, and the times at which the broker took messages. Two that
agree outvote the third; one alone has to say the same thing for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Generic

import numpy as np

from ldpbeam.engine.sources.source import Message
from ldpbeam.records.run_record import ClockRecord

_MICROS = 1_000_000
_TOLERANCE = 1.0
"""Seconds by which clocks may differ: more than network time does to them, less than matters."""
_SLEW = 0.001
"""Seconds per second by which the wall clock may run faster or slower, as it does while it is set right."""
_PACE = 0.1
"""A backlog is being worked off where the messages' age falls by this many seconds per second, at least."""


@cache
def boot() -> str:
    """A name for the time since this machine started, during which its steady clock goes on; or nothing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@dataclass
class _SuspectAges:
    """A run of ages of messages that contradict the clock."""

    since: float  # when it began, steady seconds
    first: float  # the age then, seconds
    best: float  # the age nearest to zero since then


@dataclass
class _OldSince:
    """When most messages began to be older than ``delay``, or were last judged."""

    since: float  # steady seconds
    first: float  # the age then, seconds


class _OldMessages(Enum):
    """How the watermark moves while most messages that come are older than ``delay``."""

    HOLD = auto()  # it stands still: their age is new, or a backlog is worked off
    FOLLOW = auto()  # it follows their time: they are a replay, whose times advance
    RELEASE = auto()  # it follows the clock: their times stand still


class TimeKeeper:
    """The time of day that the witnesses agree on, in seconds since 1970."""

    def __init__(
        self,
        wall: Callable[[], float],
        steady: Callable[[], float],
        delay: float,
        patience: float,
        recorded: ClockRecord | None = None,
    ) -> None:
        """Begin with the wall clock, or where an earlier engine was."""
        self._wall, self._steady = wall, steady
        self._delay, self._patience = delay, patience
        begin = steady()
        self._offset = wall() - begin
        self.confirmed = False
        self._heard = False
        self._since = begin
        self._slack, self._slack_at = _TOLERANCE, begin
        self._claimed: float | None = None
        self._refuted: float | None = None
        self._suspect: _SuspectAges | None = None
        if recorded is not None:
            self._go_on(recorded, begin)

    def _go_on(self, recorded: ClockRecord, begin: float) -> None:
        if recorded.boot and recorded.boot == boot() and begin >= recorded.steady:
            # The machine has not been started again: its steady clock says how long nobody was here.
            self._offset = recorded.time - recorded.steady
            self.confirmed, self._heard = recorded.confirmed, recorded.heard
        elif recorded.confirmed and begin + self._offset < recorded.time - _TOLERANCE:
            # It is later than it was, whatever the clock says now.
            self._refuted = self._offset
            self._offset = recorded.time - begin

    def record(self) -> ClockRecord:
        """What the next engine has to know."""
        steady = self._steady()
        return ClockRecord(boot(), steady, steady + self._offset, self.confirmed, self._heard)

    def now(self) -> float:
        """Seconds since 1970, by what was observed so far."""
        return self._steady() + self._offset

    @property
    def jumped(self) -> float:
        """Seconds by which the wall clock is ahead of what is believed; 0 where they agree."""
        apart = self._wall() - self._steady() - self._offset
        return apart if abs(apart) > _TOLERANCE else 0.0

    def observe_clocks(self) -> None:
        """Hold the wall clock against the steady clock; to be called every few seconds."""
        steady = self._steady()
        claim = self._wall() - steady
        self._slack = min(_TOLERANCE, self._slack + _SLEW * (steady - self._slack_at))
        self._slack_at = steady
        if abs(claim - self._offset) <= self._slack:  # both clocks advance alike
            self._slack -= abs(claim - self._offset)
            self._offset, self._claimed = claim, None
            if not self.confirmed and steady - self._since >= self._patience:
                self.confirmed = True
        elif self._refuted is not None and abs(claim - self._refuted) <= _TOLERANCE:
            # A jump that messages have contradicted: the old time stays.
            self._refuted, self._claimed = claim, None
        elif self._claimed is None or abs(claim - self._claimed) > _TOLERANCE:  # a jump begins
            self._claimed, self._since = claim, steady
        elif steady - self._since >= self._patience:  # it stays, and nobody contradicts it
            self._believe(claim, heard=False)

    def observe_messages(self, age: float) -> bool:
        """Hold the time against messages that were just pulled; gives whether they are fresh."""
        steady = self._steady()
        claim = self._wall() - steady
        by_claim = age + claim - self._offset
        if self._fresh(age):
            self.confirmed, self._heard, self._suspect = True, True, None
            if not self._fresh(by_claim):  # a jump that messages contradict: the old time stays
                self._refuted, self._claimed = claim, None
            return True
        if self._fresh(by_claim):  # a jump that messages agree with
            self._believe(claim, heard=True)
            return True
        suspect = self._suspect
        if suspect is None or (suspect.first > 0) != (age > 0):
            self._suspect = _SuspectAges(steady, age, age)
            return False
        suspect.best = min(suspect.best, age, key=abs)
        passed = steady - suspect.since
        # Nothing comes from the future. Old messages may have been held up, if they were fresh before.
        if passed < (self._patience if age > 0 and self._heard else self._delay):
            return False
        if age > 0 and suspect.first - age >= _PACE * passed:
            # The messages are old, and less so from one to the next: what has piled up is worked off.
            self._suspect = _SuspectAges(steady, age, age)
            return False
        self._refuted = claim
        self._believe(self._offset - suspect.best, heard=True)
        return self._fresh(age - suspect.best)

    def _fresh(self, age: float) -> bool:
        return -_TOLERANCE <= age <= self._delay

    def _believe(self, offset: float, *, heard: bool) -> None:
        self._offset, self.confirmed, self._heard, self._slack = offset, True, heard, _TOLERANCE
        self._claimed, self._suspect = None, None
        if self._refuted is not None and abs(self._refuted - offset) <= _TOLERANCE:
            self._refuted = None


@dataclass
class Pull(Generic[Message]):
    """Messages of one interval, and how old each was when it was pulled."""

    messages: list[Message] = field(default_factory=list)
    size: int = 0
    arrival_ages: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    until: float = 0.0

    def add(self, some: Sequence[Message], now: float) -> None:
        """What a pull gave; it ended at ``now``."""
        self.messages += some
        self.size += sum(len(message.data) for message in some)
        self.arrival_ages += [now - message.arrival_micros / _MICROS for message in some]
        self.ages += [now - message.published_micros / _MICROS for message in some]
        self.until = now


class Watermark:
    """Up to when no message is missing, as far as anybody can know."""

    def __init__(self, keeper: TimeKeeper, delay: float, patience: float) -> None:
        self._keeper, self._delay, self._patience = keeper, delay, patience
        self._hold: _OldSince | None = None
        self._mode = _OldMessages.HOLD
        self.micros = 0
        self.known = False
        """Whether there is any message, or anything published, that it could be a watermark of."""

    def at_least(self, micros: int) -> None:
        """Go on where an earlier engine was, at a time in microseconds since 1970."""
        self.micros = max(self.micros, micros)
        self.known = True

    def judge(self, pulled: Pull[Message], steady: float) -> int | None:
        """Up to when nothing is missing once a pull is landed; None where it is not known."""
        self.known = True
        fresh = self._keeper.observe_messages(float(np.median(pulled.ages)))
        # What has been learnt about the clock concerns the times of the pulls as well.
        shift = self._keeper.now() - pulled.until
        shift = shift if abs(shift) > _TOLERANCE else 0.0
        if fresh:
            self.micros = min(self.micros, max(0, round((pulled.until + shift) * _MICROS)))
        age = float(np.median(pulled.arrival_ages)) + shift
        horizon = pulled.until + shift - self._delay
        if age <= self._delay:
            self._hold, self._mode = None, _OldMessages.HOLD
            return round(horizon * _MICROS)
        if self._hold is None:
            self._hold = _OldSince(steady, age)
        passed = steady - self._hold.since
        if passed >= self._patience:
            # By how much the messages' own times went on meanwhile.
            advanced = passed + self._hold.first - age
            if advanced >= (1 + _PACE) * passed:
                self._mode = _OldMessages.HOLD
            elif advanced >= passed / 2:
                self._mode = _OldMessages.FOLLOW
            else:
                self._mode = _OldMessages.RELEASE
            self._hold = _OldSince(steady, age)
        if self._mode is _OldMessages.HOLD:
            return None
        return round((horizon - (age if self._mode is _OldMessages.FOLLOW else 0.0)) * _MICROS)

    def silence(self) -> int | None:
        """Up to when nothing is missing after ``delay`` seconds of silence; None where it is not known."""
        now = self._keeper.now()
        if not (self.known and self._keeper.confirmed):
            return None
        self._hold, self._mode = None, _OldMessages.HOLD
        return round((now - self._delay) * _MICROS)

    def advance(self, micros: int | None) -> None:
        """Go on to a time in microseconds since 1970; never back, and nowhere for None."""
        if micros is not None:
            self.micros = max(self.micros, micros)
