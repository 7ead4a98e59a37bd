"""The contract of a protocol: one frozen value object for device, simulator and server.

It has three sides, each in a module of its own: :class:`DeviceSide` (``new_memo``, ``privatize``, ``encode``
and ``decode``), :class:`ServerSide` (``check``, ``add_support``, ``support_counts``, ``estimate``, and one
``PartEstimator`` per attribute) and :class:`SimulationSide` (``privatize_fleet``). :class:`ForgerySide` adds
what the server can tell about forged reports. This module puts them together with what a protocol promises.

A two-round protocol is a composition: a permanent answer, memoised per input and kept for life in the memo,
is randomised again for every report. The memo is an explicit argument and result.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

from ldpbeam.arrays import Bytes, Ints
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import Losses
from ldpbeam.protocols.device_side import DeviceSide, Memo, plain_integer
from ldpbeam.protocols.forgery_side import AddedNoise, ForgerySide
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.server_side import EVERYONE, PartEstimator, Result, ServerSide
from ldpbeam.protocols.simulation_side import FleetAnswers, FleetWords, SimulationSide, WordPlan, WordSpec

__all__ = [
    "EVERYONE",
    "AddedNoise",
    "FleetAnswers",
    "FleetWords",
    "LocalProtocol",
    "Memo",
    "PartEstimator",
    "Result",
    "WordPlan",
    "WordSpec",
    "plain_integer",
]

Response = TypeVar("Response")

_PARTICIPATION = (
    "Taking part. Whether a device reports in an epoch is not protected, nor that it stays silent because "
    "its value lies outside the domain."
)


class LocalProtocol(DeviceSide[Response], ServerSide, SimulationSide, ForgerySide):
    """One protocol with its parameters fixed. Immutable, comparable, small to pickle.

    Class constants:
        ID: number in vector files, for devices in other languages; it never changes meaning. 9000 to 9999 are
            for tests.
        NAME: what a collection file says.
        PARAMETERS: required keys of :class:`Parameters`.
        OPTIONAL: keys that may be given.
        SOURCE: paper and place.
    """

    ID: ClassVar[int]
    PARAMETERS: ClassVar[tuple[str, ...]]
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    SOURCE: ClassVar[str]

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

    def resolved_parameters(self) -> dict[str, int | float | str]:
        """What the protocol made of the parameters, such as g as a number: for digest and run record."""
        return {}

    @property
    def parts(self) -> tuple[LocalProtocol[Any], ...]:
        """The protocol of each attribute; most protocols have one attribute, and are it."""
        return (self,)

    @property
    def sum_limit(self) -> int | None:
        """The most that the values of one device may add up to; None where they may be anything."""
        return None

    # Counting, of both accumulators

    def add_reports(self, payloads: Bytes, counts: Ints, signs: Ints) -> None:
        """:meth:`add_support` and :meth:`add_signs`."""
        self.add_support(payloads, counts)
        self.add_signs(payloads, signs)

    # For exact checks: devices and pipelines never ask

    @abstractmethod
    def likelihood(self, response: Response, value: Any) -> Fraction:
        """P(first report = response | value), given the seed where the response carries one."""

    def responses(self) -> Iterator[Response]:
        """Every possible response, for exact checks on small domains.

        Raises:
            NotImplementedError: there are too many to enumerate by design (128-bit seeds).
        """
        raise NotImplementedError(f"the responses of {self.NAME} cannot be enumerated")
