"""What the engine takes of a source of messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar


class IncomingMessage(Protocol):
    """A message, as the engine sees it."""

    @property
    def data(self) -> bytes:
        """One serialised Report or ReportBatch, or what somebody sent in its place."""

    @property
    def arrival_micros(self) -> int:
        """Microseconds since 1970; decides lateness. Where a timestamp attribute was asked for, that."""

    @property
    def stamped(self) -> bool:
        """Whether that is the time that was asked for."""

    @property
    def published_micros(self) -> int:
        """When the broker took it, microseconds since 1970, by the broker's clock.

        A timestamp attribute is the publisher's, and may say anything.
        """


Message = TypeVar("Message", bound=IncomingMessage)


class MessageSource(ABC, Generic[Message]):
    """Where messages of one type come from; what is not acknowledged comes again.

    Beyond :meth:`pull` and :meth:`acknowledge` the methods are those of a broker, which remembers by itself
    what was taken. A source that remembers nothing, such as a folder, overrides them: the engine then keeps
    how far each of its files was taken.
    """

    @abstractmethod
    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> Sequence[Message]:
        """Some messages as soon as there is one, or none after the timeout.

        Args:
            limit_messages: how many at most; positive.
            limit_bytes: of their content at most, in bytes; a first message may exceed it.
            timeout_seconds: how long to wait for a first message.
        """

    @abstractmethod
    def acknowledge(self, messages: Sequence[Message]) -> None:
        """The messages are safe and need not come again."""

    def connected(self) -> bool:
        """Whether messages would come if there were any."""
        return True

    def resume(self, taken: Mapping[str, int]) -> None:
        """Go on where earlier engines were: bytes taken, by name of a file."""

    def taken(self, messages: Sequence[Message]) -> tuple[tuple[str, int], ...]:
        """How far the files were taken with these messages, by name."""
        return ()

    def exists(self, name: str) -> bool:
        """Whether a file is still there."""
        return True

    def missing_from(self) -> int | None:
        """When the first report arrived that may not have been pulled yet, microseconds since 1970.

        None where the source does not know: the messages' ages then say whether older ones are waiting.
        """
        return None
