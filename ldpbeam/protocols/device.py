"""What a device does with a protocol: plain Python, one value and one epoch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any, ClassVar, Generic, TypeVar

from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.protocols.complete import require_complete
from ldpbeam.randomness import Randomness

Response = TypeVar("Response")


@dataclass(frozen=True)
class Memo:
    """What a device keeps for life: its hash seed, if any, and the permanent answer of each input so far.

    Attributes:
        seed: the hash function's seed; None where there is no hash or the seed is drawn per report.
        answers: permanent answer by memoised input (the value, or its hash).
        parts: memos of the attributes, for a device that reports several.
    """

    seed: int | None = None
    answers: Mapping[int, int] = field(default_factory=dict)
    parts: tuple[Memo, ...] = ()

    def __repr__(self) -> str:
        """How many answers, never which: together with the reports they give the values away."""
        return f"Memo({len(self.answers)} memoised inputs, {len(self.parts)} parts)"

    def with_answer(self, key: int, answer: int) -> Memo:
        """A memo that also remembers ``answer`` for ``key``."""
        return Memo(self.seed, {**self.answers, key: answer}, self.parts)


class Device(ABC, Generic[Response]):
    """From a value to the payload of one report, and back from a payload to a response.

    Class constants:
        ENCODING: how a value becomes a payload, for devices in other languages; one of docs/wire.md.
    """

    ENCODING: ClassVar[str]

    domain_size: int

    def __init_subclass__(cls) -> None:
        """Raises TypeError for a class that lacks a method or ENCODING."""
        super().__init_subclass__()
        require_complete(cls, ("ENCODING",))

    @property
    @abstractmethod
    def payload_bits(self) -> int:
        """Information in one report, bits."""

    @property
    def payload_size(self) -> int:
        """Length of every payload, bytes."""
        return (self.payload_bits + 7) // 8

    @property
    def kept_functions(self) -> int | None:
        """Hash functions of which a device draws one for life; None where it keeps none."""
        return None

    @property
    def sum_limit(self) -> int | None:
        """The most that the values of one device may add up to; None where they may be anything."""
        return None

    def new_memo(self, randomness: Randomness) -> Memo:
        """The memo of a device that never reported."""
        return Memo()

    def privatize(self, value: Any, memo: Memo, randomness: Randomness) -> tuple[Response, Memo]:
        """Randomise ``value`` for one report: an integer, or one per attribute where there are several.

        Any integer type will do, numpy's among them; what is randomised is the plain ``int`` behind it. The
        returned memo is the given object when nothing new was memoised; otherwise it must be made durable
        before the response leaves the device. The words drawn are as many for every value and every memo: a
        permanent answer is drawn each time, and kept where there is none yet.

        Raises:
            TypeError: ``value`` is no integer, or a bool. Nothing was drawn.
            ValueError: ``value`` lies outside the domain. Nothing was drawn.
        """
        return self._privatize(self.require_value(value), memo, randomness)

    @abstractmethod
    def _privatize(self, value: Any, memo: Memo, randomness: Randomness) -> tuple[Response, Memo]:
        """:meth:`privatize` for what :meth:`require_value` has let through: a plain int inside the domain."""

    def require_value(self, value: Any) -> Any:
        """The value as a plain int, or a tuple of one per attribute.

        Raises:
            TypeError: it is no integer, or a bool.
            ValueError: it lies outside the domain. The text of neither error contains the value.
        """
        plain = plain_integer(value, "the value")
        if not 0 <= plain < self.domain_size:
            # Never the value itself: this text may reach a log on the device.
            raise ValueError(f"the value lies outside the domain of size {self.domain_size}")
        return plain

    @abstractmethod
    def definition(self) -> dict[str, Any]:
        """What a device in another language needs besides the sizes: JSON values, all integers worked out.

        Weights of a round, which may exceed 2**53, are decimal text. A round that there is not is None.
        """

    @abstractmethod
    def encode(self, response: Response) -> bytes:
        """The response as ``payload_size`` bytes."""

    @abstractmethod
    def decode(self, payload: bytes) -> Response:
        """The response in a payload.

        Raises:
            InvalidPayload: no device with these parameters sends this payload.
        """

    def said_about(self, response: Response) -> Mapping[int, Any]:
        """The response of each attribute that a response speaks about, by the attribute's position."""
        return {0: response}

    # Shared by implementations

    @staticmethod
    def _memoised(memo: Memo, key: int, drawn: int) -> tuple[int, Memo]:
        """The permanent answer of an input: ``drawn`` becomes it where there is none, and is dropped else.

        It is drawn in either case. What a report takes, in words and so in time, then does not tell whoever
        watches the device whether it has held the value before.
        """
        answer = memo.answers.get(key)
        return (drawn, memo.with_answer(key, drawn)) if answer is None else (answer, memo)

    def _require_length(self, payload: bytes) -> None:
        if len(payload) != self.payload_size:
            raise InvalidPayload(Reason.WRONG_LENGTH, f"payloads have {self.payload_size} bytes")


def plain_integer(number: Any, what: str) -> int:
    """The plain int behind any integer type; ``what`` names it in errors, which never hold the number.

    Integers of a fixed width wrap where Python's grow: ``1 << np.int64(63)`` is negative, and a device that
    computed with it would report something that no certificate covers. Floats compare equal to integers and
    are none: as a symbol, the number kept would fail to encode and the lies would not.

    Raises:
        TypeError: it is no integer, or a bool.
    """
    if isinstance(number, bool):
        raise TypeError(f"{what} must be an integer, not a bool")
    try:
        return index(number)
    except TypeError:
        raise TypeError(f"{what} must be an integer, not of type {type(number).__name__}") from None
