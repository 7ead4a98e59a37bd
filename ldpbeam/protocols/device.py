"""The device's side of a protocol: plain Python, one value and one epoch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any, ClassVar, Generic, TypeVar

from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.protocols.completeness import require_complete
from ldpbeam.randomness import Randomness

Response = TypeVar("Response")


@dataclass(frozen=True)
class Memo:
    """A device keeps it for life: its hash seed, if any, and the permanent answer of each input so far."""

    seed: int | None = None
    answers: Mapping[int, int] = field(default_factory=dict)
    parts: tuple[Memo, ...] = ()

    def __repr__(self) -> str:
        """The number of answers, and no answer: together with the reports answers give the values away."""
        return f"Memo({len(self.answers)} memoised inputs, {len(self.parts)} parts)"

    def with_answer(self, key: int, answer: int) -> Memo:
        return Memo(self.seed, {**self.answers, key: answer}, self.parts)


class ProtocolDevice(ABC, Generic[Response]):
    """From a value to the payload of one report, and back from a payload to a response.

    Class constants:
        ENCODING: how a value becomes a payload, for devices in other languages; one of docs/wire.md.
    """

    ENCODING: ClassVar[str]

    domain_size: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        require_complete(cls, ("ENCODING",))

    @property
    @abstractmethod
    def payload_bits(self) -> int:
        """Information in one report; bits."""

    @property
    def payload_size(self) -> int:
        return (self.payload_bits + 7) // 8

    @property
    def functions_for_life(self) -> int | None:
        """Hash functions of which a device draws one for life; None where it keeps none."""
        return None

    @property
    def sum_limit(self) -> int | None:
        """The largest sum that the values of one device may have; None for no limit."""
        return None

    def new_memo(self, randomness: Randomness) -> Memo:
        return Memo()

    def privatize(self, value: Any, memo: Memo, randomness: Randomness) -> tuple[Response, Memo]:
        """Randomise a value for one report.

        A device draws as many words for every value and every memo: it draws a permanent answer each time,
        and keeps it where there is none yet.

        Args:
            value: an integer, or one per attribute where there are several; of any integer type, numpy's
                among them.
            memo: of the device; new devices have that of :meth:`new_memo`.
            randomness: gives the words.

        Returns:
            The response, and the memo after it: the given object where nothing new was memoised. Another
            memo must be on disk before the response leaves the device.

        Raises:
            TypeError: ``value`` is no integer, or a bool. Nothing was drawn.
            ValueError: ``value`` lies outside the domain. Nothing was drawn.
        """
        return self._privatize(self.require_value(value), memo, randomness)

    @abstractmethod
    def _privatize(self, value: Any, memo: Memo, randomness: Randomness) -> tuple[Response, Memo]:
        """:meth:`privatize` for what :meth:`require_value` has let through: a plain int inside the domain."""

    def require_value(self, value: Any) -> Any:
        """The value as a plain int; of several attributes, a tuple with an int for each.

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
        """The definition for devices in other languages, besides the sizes: JSON values with all integers.

        Weights of a round may exceed 2**53 and are decimal text. A round that the protocol lacks is None.
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

    def responses_by_attribute(self, response: Response) -> Mapping[int, Any]:
        """Responses of the attributes that a response speaks about, by the position of the attribute."""
        return {0: response}

    # Shared by implementations

    @staticmethod
    def _memoised(memo: Memo, key: int, drawn: int) -> tuple[int, Memo]:
        """The permanent answer of an input: the one in the memo, or else ``drawn``."""
        answer = memo.answers.get(key)
        return (drawn, memo.with_answer(key, drawn)) if answer is None else (answer, memo)

    def _require_length(self, payload: bytes) -> None:
        if len(payload) != self.payload_size:
            raise InvalidPayload(Reason.WRONG_LENGTH, f"payloads have {self.payload_size} bytes")


def plain_integer(number: Any, what: str) -> int:
    """The plain int behind any integer type; ``what`` names it in errors, and no error holds the number."""
    if isinstance(number, bool):
        raise TypeError(f"{what} must be an integer, not a bool")
    try:
        return index(number)
    except TypeError:
        raise TypeError(f"{what} must be an integer, not of type {type(number).__name__}") from None
