"""The contract of a protocol: one frozen value that device, simulator and server share, and what it holds.

A protocol holds six objects. Each has a documented base in a file of its own:

* :class:`~ldpbeam.protocols.device.ProtocolDevice`: from a value to a payload, and back to a response;
* :class:`~ldpbeam.protocols.counter.Counter`: from columns of payloads to counts;
* :class:`~ldpbeam.protocols.estimator.Estimator`: from counts to estimates with their errors;
* :class:`~ldpbeam.protocols.simulation.Simulation`: the device for columns of devices;
* :class:`~ldpbeam.protocols.forgery.Forgery`: figures by which forged reports show;
* :class:`~ldpbeam.protocols.law.Law`: exact probabilities, for certificates, audits and promises.

A two-round protocol is a composition: a permanent answer, memoised per input and kept for life in the memo,
is randomised again for every report. The memo is an explicit argument and result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar

from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import Losses
from ldpbeam.protocols.completeness import require_complete
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import ProtocolDevice
from ldpbeam.protocols.estimator import (
    EVERYONE,
    DistributionEstimator,
    Estimator,
    FrequencyEstimator,
    MeanEstimator,
    Result,
)
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.law import FrequencyLaw, Law
from ldpbeam.protocols.parameters import PARAMETER_KEYS, Parameters
from ldpbeam.protocols.simulation import Simulation

Response = TypeVar("Response")

_PARTICIPATION = (
    "Taking part. Whether a device reports in an epoch is not protected, nor that it stays silent because "
    "its value lies outside the domain."
)


class LocalProtocol(ABC, Generic[Response]):
    """One protocol with its parameters fixed: a frozen dataclass, comparable, small to pickle.

    The six objects follow from the fields, so that a pickle has the fields alone.

    Class constants:
        ID: number in vector files, for devices in other languages; it never changes meaning. 9000 to 9999 are
            for tests.
        NAME: the name in a collection file.
        PARAMETERS: required keys of :class:`Parameters`.
        OPTIONAL: keys that may be given.
        SOURCE: paper and place.
        RESULT: the kind of the estimates; None where a protocol has several attributes: its parts have one.
        SEVERAL: whether a value is a tuple with one for each of :attr:`parts`, of which there may be one.
    """

    ID: ClassVar[int]
    NAME: ClassVar[str]
    PARAMETERS: ClassVar[tuple[str, ...]]
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    SOURCE: ClassVar[str]
    RESULT: ClassVar[Result | None]
    SEVERAL: ClassVar[bool] = False

    domain_size: int

    def __init_subclass__(cls) -> None:
        """Raises TypeError for a class that lacks a member, or names a key that no collection has."""
        super().__init_subclass__()
        require_complete(cls, ("ID", "NAME", "PARAMETERS", "SOURCE", "RESULT"))
        unknown = {*getattr(cls, "PARAMETERS", ()), *cls.OPTIONAL} - set(PARAMETER_KEYS)
        if unknown:
            raise TypeError(
                f"class {cls.__name__} in {cls.__module__} takes {', '.join(sorted(unknown))}, "
                "which ldpbeam/protocols/parameters.py has no line for"
            )

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """The fields, without what is held."""
        return type(self), tuple(getattr(self, one.name) for one in fields(self))  # type: ignore[arg-type]

    # Parameters

    @classmethod
    @abstractmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> LocalProtocol[Any]:
        """Derive the integer probabilities once.

        Raises:
            CollectionError: the parameters are missing, out of range or infeasible; the limit is named.
        """

    def resolved_parameters(self) -> dict[str, int | float | str]:
        """Parameters that the protocol derived, such as g as a number: for digest and run record."""
        return {}

    # What it promises

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The privacy that one device can lose, from the integer probabilities."""

    @property
    def losses(self) -> Losses | None:
        """The loss of several reports of one device together; None where nothing is memoised, or unknown."""
        return None

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """Facts about a device that reports show at any levels, in sentences for people."""
        return (_PARTICIPATION,)

    # What it holds

    @property
    @abstractmethod
    def device(self) -> ProtocolDevice[Response]:
        """Turns the value of one device into the payload of a report."""

    @property
    @abstractmethod
    def counter(self) -> Counter:
        """Turns columns of payloads into counts."""

    @property
    @abstractmethod
    def estimator(self) -> Estimator:
        """Turns counts into estimates with their errors."""

    @property
    @abstractmethod
    def simulation(self) -> Simulation:
        """What a simulation does for many devices at once."""

    @property
    @abstractmethod
    def forgery(self) -> Forgery:
        """Figures of honest reports by which forged ones show."""

    @property
    @abstractmethod
    def law(self) -> Law[Response]:
        """The exact probabilities of reports."""

    # Several attributes

    @property
    def parts(self) -> tuple[LocalProtocol[Any], ...]:
        """The protocol of each attribute; a protocol of one attribute has itself alone."""
        return (self,)

    @property
    def share(self) -> Fraction:
        """Share of the devices, drawn for life, that report each attribute."""
        return EVERYONE


class SupportProtocol(LocalProtocol[Response], ABC):
    """A protocol whose reports support values, whatever is estimated from them."""

    @property
    @abstractmethod
    def law(self) -> FrequencyLaw[Response]:
        """The exact probabilities of reports, and which values they support."""

    @abstractmethod
    def supported(self, value: int, held: int) -> Fraction:
        """P(a report supports a value | the device holds a value), exact."""


class FrequencyProtocol(SupportProtocol[Response], ABC):
    """A protocol whose reports tell how frequent each value is."""

    RESULT = Result.FREQUENCIES

    @property
    @abstractmethod
    def estimator(self) -> FrequencyEstimator:
        """Turns counts into the frequency of each value, by (own, other)."""

    def supported(self, value: int, held: int) -> Fraction:
        """Own or other, of a value that was asked about."""
        support = self.estimator.support
        return support.sampled * (support.own if value == held else support.other)


class MeanProtocol(LocalProtocol[Response], ABC):
    """A protocol whose result is the mean of values 0..m, m = domain_size − 1."""

    RESULT = Result.MEAN

    @property
    @abstractmethod
    def estimator(self) -> MeanEstimator:
        """Turns counts into the mean of the values."""


class DistributionProtocol(SupportProtocol[Response], ABC):
    """A protocol over a domain that has an order, whose result is the distribution of the values."""

    RESULT = Result.DISTRIBUTION

    @property
    @abstractmethod
    def estimator(self) -> DistributionEstimator:
        """Turns counts into the distribution over the domain."""
