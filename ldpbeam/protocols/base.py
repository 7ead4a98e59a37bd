"""The contract of a protocol: one frozen value object for device, simulator and server.

Who runs what: ``new_memo``, ``privatize`` and ``encode`` on the device, in plain Python, one value and one
epoch at a time; ``check``, ``add_support`` and ``support_counts`` on the server, over columns of payloads;
``privatize_fleet`` in simulations, the same function of the same random words as ``privatize``.

A two-round protocol is a composition: a permanent answer, memoised per input and kept for life in the memo,
is randomised again for every report. The memo is an explicit argument and result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import log
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from ldpbeam.channels.calibration import Calibration
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import Losses
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ldpbeam.estimates import Estimates

    Payloads = NDArray[np.uint8]  # shape (reports, payload_size)

__all__ = [
    "CHECK_CODES",
    "FleetMemo",
    "FleetWords",
    "FrequencyProtocol",
    "LocalProtocol",
    "Memo",
    "Parameters",
    "Result",
    "WordSpec",
    "plain_integer",
]

Response = TypeVar("Response")

_PARTICIPATION = (
    "Taking part. Whether a device reports in an epoch is not protected, nor that it stays silent because "
    "its value lies outside the domain."
)

CHECK_CODES = (
    None,
    Reason.VALUE_OUT_OF_RANGE,
    Reason.UNUSED_BITS,
    Reason.REPEATED_INDEX,
    Reason.DEGENERATE,
)
"""What the small integers returned by :meth:`LocalProtocol.check` stand for; 0 is sound."""


class Result(Enum):
    """What an epoch's estimates are; the values are published (run.json) and never change."""

    FREQUENCIES = "frequencies"
    """One frequency for each value of the domain."""
    MEAN = "mean"
    """One mean, in the units of the values."""


@dataclass(frozen=True)
class Parameters:
    """What a collection may say about its protocol; each protocol names the keys it takes.

    Attributes:
        epsilon: level of a one-round protocol, spent by every report.
        epsilon_longitudinal: ε∞, level of the memoised round.
        epsilon_first: ε1, level of the first report.
        g: symbols of a hash; None means ``optimal``.
        calibration: which formula sets the second round of symbol channels.
        hash_family: ``linear`` or ``affine``.
        d: buckets a dBitFlip device samples.
        gamma: probability of flipping a memoised bit once more (output perturbation of `004`).
        segment: distance of the points that a value is rounded to, in units of the value.
        p2, q2: given second round of deployed RAPPOR.
    """

    epsilon: float | None = None
    epsilon_longitudinal: float | None = None
    epsilon_first: float | None = None
    g: int | None = None
    calibration: Calibration = Calibration.EXACT
    hash_family: str = "linear"
    d: int | None = None
    gamma: float = 0.0
    segment: int | None = None
    p2: float = 0.75
    q2: float = 0.25

    def level(self, name: str) -> float:
        """The privacy level called ``name``.

        Raises:
            CollectionError: it is missing, or not a number in 0.000001 .. 32.
        """
        value = getattr(self, name)
        # Above 32 a probability differs from 1 by less than the integers can say in two rounds; below
        # 1e-6 the two weights of a large domain would be the same integer and nothing could be estimated.
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 1e-6 <= value <= 32:
            found = "missing" if value is None else f"{value!r}"
            raise CollectionError(
                "E-COLLECTION-EPSILON",
                f"{name} must be a number in 0.000001 .. 32, not {found}",
                remedy=f"Set {name}, for example {name}: 1.0.",
            )
        return float(value)


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


@dataclass(frozen=True)
class WordSpec:
    """How many random words a step takes, and the limit each lies below."""

    count: int
    limit: int = FULL


class FleetWords(Protocol):
    """Random words for a group of simulated devices, one row per device; equal calls give equal words."""

    def seed(self, spec: WordSpec) -> NDArray[np.uint64]:
        """Words of the hash seed, shape (n, count)."""
        ...

    def permanent(self, spec: WordSpec) -> NDArray[np.uint64]:
        """Words of the permanent round; a fleet asks for them where an input is new. Shape (n, count)."""
        ...

    def instant(self, spec: WordSpec) -> NDArray[np.uint64]:
        """Words of the round drawn for every report. Shape (n, count)."""
        ...

    def part(self, index: int, rows: NDArray[np.int64] | None = None) -> FleetWords:
        """Words of one attribute of a composite, independent of all others, for some of the rows."""
        ...


class FleetMemo(Protocol):
    """Permanent answers of a fleet, by 64-bit key; each key is drawn once and kept."""

    def recall(
        self, keys: NDArray[np.int64], draw: Callable[[NDArray[np.int64]], NDArray[Any]]
    ) -> NDArray[Any]:
        """Answers for distinct ``keys`` (n,); ``draw(rows)`` makes those of the rows that are new.

        Symbols are int64 (n,), packed bits uint8 (n, answer_bytes).
        """
        ...

    def part(self, index: int) -> FleetMemo:
        """The answers of one attribute of a composite."""
        ...


class LocalProtocol(ABC, Generic[Response]):
    """One protocol with its parameters fixed. Immutable, comparable, small to pickle.

    Class constants:
        ID: number on no wire but in digests and vectors; never changes meaning. 9000 to 9999 are for tests.
        NAME: what a collection file says.
        PARAMETERS: required keys of :class:`Parameters`.
        OPTIONAL: keys that may be given.
        SOURCE: paper and place.
    """

    ID: ClassVar[int]
    NAME: ClassVar[str]
    PARAMETERS: ClassVar[tuple[str, ...]]
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    SOURCE: ClassVar[str]

    domain_size: int

    # Construction and facts

    @classmethod
    @abstractmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LocalProtocol[Any]:
        """Derive the integer probabilities once.

        Raises:
            CollectionError: the parameters are missing, out of range or infeasible; the limit is named.
        """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What one device can lose, from the integer probabilities."""

    @property
    def losses(self) -> Losses | None:
        """What several reports of one device lose together; None where nothing is memoised, or not known."""
        return None

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """What reports show about a device whatever its levels are, in sentences for people."""
        return (_PARTICIPATION,)

    @property
    @abstractmethod
    def payload_bits(self) -> int:
        """Information in one report, bits."""

    @property
    def payload_size(self) -> int:
        """Length of every payload, bytes."""
        return (self.payload_bits + 7) // 8

    def facts(self) -> dict[str, int | float | str]:
        """Resolved integers that belong into the digest and the run record (such as g)."""
        return {}

    # Device: plain Python, one value at a time

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
    def encode(self, response: Response) -> bytes:
        """The response as ``payload_size`` bytes."""

    @abstractmethod
    def decode(self, payload: bytes) -> Response:
        """The response in a payload.

        Raises:
            InvalidPayload: no device with these parameters sends this payload.
        """

    @abstractmethod
    def likelihood(self, response: Response, value: Any) -> Fraction:
        """P(first report = response | value), given the seed where the response carries one."""

    def responses(self) -> Iterator[Response]:
        """Every possible response, for exact checks on small domains.

        Raises:
            NotImplementedError: there are too many to enumerate by design (128-bit seeds).
        """
        raise NotImplementedError(f"the responses of {self.NAME} cannot be enumerated")

    def log_likelihood(self, response: Response, value: Any) -> float:
        """Natural logarithm of :meth:`likelihood`."""
        exact = self.likelihood(response, value)
        return log(exact.numerator) - log(exact.denominator)

    # Server: columns of payloads

    @property
    @abstractmethod
    def counts_length(self) -> int:
        """Cells of the int64 accumulator."""

    @abstractmethod
    def check(self, payloads: Payloads) -> NDArray[np.uint8]:
        """One of :data:`CHECK_CODES` per payload, shape (n,): agrees with :meth:`decode`."""

    @abstractmethod
    def add_support(self, payloads: Payloads, counts: NDArray[np.int64]) -> None:
        """Add checked payloads (n, payload_size) into ``counts`` (counts_length,) in place."""

    @property
    @abstractmethod
    def result(self) -> Result:
        """Frequencies or a mean; of several attributes, what each of them has."""

    @property
    def signs_length(self) -> int:
        """Cells of a second int64 accumulator, for what the first does not show of forged reports."""
        return 0

    def add_signs(self, payloads: Payloads, signs: NDArray[np.int64]) -> None:
        """Add checked payloads (n, payload_size) into ``signs`` (signs_length,) in place."""
        return

    def seed_cells(
        self, counts: NDArray[np.int64], signs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], float] | None:
        """How often each of some equally likely choices was made that devices draw without their value.

        Args:
            counts: int64 (counts_length,).
            signs: int64 (signs_length,).

        Returns:
            Counts int64 (cells,), and the factor by which their squared deviations exceed those of a
            multinomial; None where nothing of that kind is drawn, or it is not counted.
        """
        return None

    @property
    def rows(self) -> int:
        """Numbers that an epoch's result has: one per value, or one for a mean."""
        return self.domain_size

    @abstractmethod
    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """What was counted for each row, int64 (rows,), from an accumulator."""

    @abstractmethod
    def estimate(
        self, counts: NDArray[np.int64], reports: int, ties: NDArray[np.float64] | None = None
    ) -> Estimates:
        """Unbiased estimates with their errors from an accumulator.

        Args:
            counts: int64 (counts_length,).
            reports: number of reports in it, at least 1.
            ties: (rows,), see :func:`ldpbeam.estimates.interval`.
        """

    @abstractmethod
    def consistent(self, method: str, estimates: Estimates) -> NDArray[np.float64]:
        """The estimates after post-processing, float64 (rows,)."""

    @property
    def parts(self) -> tuple[LocalProtocol[Any], ...]:
        """One protocol per attribute; most protocols have one attribute, and are it."""
        return (self,)

    def part_counts(
        self, counts: NDArray[np.int64], reports: int
    ) -> tuple[tuple[NDArray[np.int64], int], ...]:
        """Accumulator and number of reports of each part."""
        return ((counts, reports),)

    # Simulation: a fleet at once

    @property
    def seed_words(self) -> WordSpec | None:
        """Words of a hash seed; None where there is none."""
        return None

    @property
    def seed_per_report(self) -> bool:
        """Whether the seed is drawn for every report instead of once for life."""
        return False

    @property
    def permanent_words(self) -> WordSpec | None:
        """Words of one permanent answer; None for one-round protocols."""
        return None

    @property
    @abstractmethod
    def instant_words(self) -> WordSpec:
        """Words of the round drawn for every report; a count of 0 where the memoised answer is sent."""

    @property
    def answer_bytes(self) -> int | None:
        """Bytes of a memoised answer that is packed bits; None where it is a symbol (an int64)."""
        return None

    @abstractmethod
    def privatize_fleet(
        self,
        devices: NDArray[np.int64],
        values: NDArray[np.int64],
        words: FleetWords,
        memo: FleetMemo,
    ) -> Payloads:
        """Payloads (n, payload_size) of distinct devices holding ``values``, (n,) or (n, attributes).

        Equal, bit for bit, to :meth:`privatize` and :meth:`encode` fed with the same words in the order
        seed, permanent, instant.
        """

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
            raise InvalidPayload(Reason.WRONG_LENGTH, f"{self.NAME} payloads have {self.payload_size} bytes")


class FrequencyProtocol(LocalProtocol[Response]):
    """A protocol whose reports support values: estimator, variance and interval follow from (own, other).

    Class constants:
        EXCLUSIVE: whether a report supports exactly one value (then counts are multinomial).
    """

    EXCLUSIVE: ClassVar[bool] = False

    @property
    def result(self) -> Result:
        """A frequency for each value."""
        return Result.FREQUENCIES

    @property
    @abstractmethod
    def support(self) -> SupportProbabilities:
        """P(support | own value) and P(support | another value) of one report, exact."""

    @property
    def lasting(self) -> SupportProbabilities | None:
        """P(support | own value) and P(support | another) of what a device keeps for life, taken alone.

        The variance that follows from them is the part of an estimate's error that repeats itself while
        devices keep their values: no number of epochs averages it away. None where nothing is kept.
        """
        return None

    @abstractmethod
    def supports(self, response: Response, value: int) -> bool:
        """Whether the response supports the value: the slow definition of counting."""

    @property
    def most_supported(self) -> int:
        """Values that one admitted report can support at most."""
        return self.domain_size

    @property
    def supported_variance(self) -> float | None:
        """A bound on the variance of the number of values that a report supports, whatever the value.

        None where that number is not random. The mean is own + (k − 1)·other for every value; a number
        between 0 and k with that mean has no larger variance than the one stated here.
        """
        mean = float(self.support.own + (self.domain_size - 1) * self.support.other)
        return mean * (self.domain_size - mean)

    @property
    def extremes(self) -> tuple[float, float] | None:
        """P(a report is counted in a cell of ``signs``) for both cells, the same for every value.

        None where ``signs`` holds something else.
        """
        return None

    def support_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Support of each value, int64 (domain_size,), from an accumulator."""
        return counts

    def report_counts(self, counts: NDArray[np.int64], reports: int) -> int | NDArray[np.int64]:
        """Reports behind each value: all of them, or those that sampled it, int64 (domain_size,)."""
        return reports

    def estimate(
        self, counts: NDArray[np.int64], reports: int, ties: NDArray[np.float64] | None = None
    ) -> Estimates:
        """The estimator of MATHS section 1."""
        from ldpbeam.estimates import estimate

        n = self.report_counts(counts, reports)
        return estimate(self.support_counts(counts), n, self.support, ties)

    def consistent(self, method: str, estimates: Estimates) -> NDArray[np.float64]:
        """One of the methods of :mod:`ldpbeam.consistency`."""
        from ldpbeam.consistency import Noise, consistent

        own, other = float(self.support.own), float(self.support.other)
        # Values sampled by few devices differ a little in their n; the methods know one.
        n = round(float(estimates.n.mean()))
        noise = Noise(n=n, own=own, other=other, exclusive=self.EXCLUSIVE)
        return consistent(method, estimates.frequency, noise)


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


def frozen_columns(array: NDArray[Any]) -> NDArray[Any]:
    """A C-contiguous read-only view: kernels then see one array type and compile once."""
    import numpy as np

    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
