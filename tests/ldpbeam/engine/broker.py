"""A broker in memory: what is not acknowledged comes again, and a clock that moves when it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ldpbeam.engine.sources.source import MessageSource
from ldpbeam.engine.storage.landing import Landing


@dataclass(frozen=True)
class Message:
    data: bytes
    arrival_micros: int
    number: int
    stamped: bool = True

    @property
    def published_micros(self) -> int:
        return self.arrival_micros


class Clock:
    """Seconds since 1970, and a clock for waiting that passes as the broker is asked in vain."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.ahead = 0.0

    def __call__(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self.ahead


def free_landing(output: Path) -> Landing:
    """A landing whose lock is free, as after the death of the process: a test can start an engine again."""
    with Landing(str(output)).locked() as landing:
        return landing


class Broker(MessageSource[Message]):
    """Queue, what is out with a reader, and what was acknowledged."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.queue: list[Message] = []
        self.out: dict[int, Message] = {}
        self.acknowledged: list[Message] = []
        self._numbers = 0

    def publish(self, data: bytes, arrival: float | None = None) -> Message:
        self._numbers += 1
        micros = round((self.clock.now if arrival is None else arrival) * 1_000_000)
        message = Message(data, micros, self._numbers)
        self.queue.append(message)
        return message

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Message]:
        some = self.queue[:limit_messages]
        self.queue = self.queue[len(some) :]
        for message in some:
            self.out[message.number] = message
        if not some:
            self.clock.now += timeout_seconds
        return some

    def acknowledge(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if self.out.pop(message.number, None):
                self.acknowledged.append(message)

    def redeliver(self) -> None:
        """Leases are over: everything unacknowledged comes again."""
        self.queue += self.out.values()
        self.out.clear()
