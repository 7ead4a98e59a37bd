"""What all connections may cost together: where there is no room, the slowest client makes way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


class NoRoomError(Exception):
    """All room is taken, and nobody can make way."""


@dataclass(eq=False)
class Occupant:
    close: Callable[[], None]
    since: float = 0.0
    held: int = 0
    stored: bool = False


class Room:
    """Connections, and bytes of bodies: a body is charged for the bytes that have come."""

    def __init__(self, connections: int, waiting: int, steady: Callable[[], float] = time.monotonic) -> None:
        self._connections, self._waiting, self._steady = connections, waiting, steady
        self._clients: set[Occupant] = set()
        self.held = 0
        """Bytes of bodies that are being read or wait for the store."""

    def enter(self, client: Occupant) -> None:
        """A new connection; where there are too many, the one that has been idle or slow longest is
        closed."""
        if len(self._clients) >= self._connections:
            self._evict(min(self._clients, key=lambda one: (one.stored, one.since)))
        self._clients.add(client)
        self.renew(client)

    def charge(self, client: Occupant, size: int) -> None:
        """Bytes of a client's body have come; the unfinished bodies that have cost most make way."""
        while self.held + size > self._waiting:
            now, others = self._steady(), [one for one in self._clients if not one.stored and one.held]
            dearest = max(others, key=lambda one: one.held * (now - one.since), default=client)
            if dearest is client:
                raise NoRoomError
            self._evict(dearest)
        self.held += size
        client.held += size

    def renew(self, client: Occupant) -> None:
        """A request begins, or has its answer: nothing of its body is held."""
        self.held -= client.held
        client.held, client.stored, client.since = 0, False, self._steady()

    def leave(self, client: Occupant) -> None:
        """The connection is closed; a body that waits for the store is still held."""
        self._clients.discard(client)

    def _evict(self, client: Occupant) -> None:
        if client.stored:
            raise NoRoomError
        self.leave(client)
        self.renew(client)
        client.close()
