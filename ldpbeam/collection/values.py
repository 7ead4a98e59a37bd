"""What a person gives as a device's value, and the index that it stands for: for devices and simulations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.number import exact_number
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.errors import DeviceError
from ldpbeam.protocols.device import plain_integer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_REMEDY = "Give a label or a number of the domain, or ldpbeam.Index(i) for the value at place i."


@dataclass(frozen=True)
class Index:
    """A value by its place in the domain, counted from 0, instead of by what a person would write.

        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> green = ldpbeam.Device.ephemeral(collection).report(ldpbeam.Index(1), epoch=0)
        >>> len(ldpbeam.simulate(collection, ldpbeam.Index([0, 2, -1, 2])))
        3

    Attributes:
        index: an integer in 0 .. size − 1 for a device, or a sequence of one for each attribute. For a fleet
            integers (devices,) or (devices, attributes), where −1 stands for an absent device.
    """

    index: ArrayLike


def value_of(collection: Collection, given: Any) -> Any:
    """The value of one device as the collection's protocol takes it."""
    try:
        return collection.protocol.device.require_value(_indices(collection, given))
    except (TypeError, ValueError) as error:
        if isinstance(error, DeviceError):
            raise
        raise value_error(str(error)) from None


def value_error(message: str, remedy: str = "") -> DeviceError:
    return DeviceError("E-DEVICE-VALUE", message, remedy=remedy)


def require_names(collection: Collection, given: Mapping[Any, Any]) -> None:
    """Raise DeviceError unless a mapping has all attributes of a collection, and nothing else."""
    names = [name for name, _ in collection.histograms]
    if set(given) != set(names):
        raise value_error(f"needs one value for each of the {len(names)} attributes, by name")


def _indices(collection: Collection, given: Any) -> Any:
    domains = collection.histograms
    if isinstance(collection.domain, StringDomain):
        if not isinstance(given, str):
            raise value_error("the value is no text, where the domain has strings", "Give the text itself.")
        return collection.domain.fingerprints_of(given)
    if collection.domain is not None:
        return index_of(given, domains[0][1])
    if isinstance(given, Mapping):
        require_names(collection, given)
        given = [given[name] for name, _ in domains]
    if isinstance(given, Index):
        return given.index  # which the protocol judges
    if isinstance(given, (str, bytes)) or not hasattr(given, "__len__") or len(given) != len(domains):
        raise value_error(f"needs a sequence of one value for each of the {len(domains)} attributes")
    return [index_of(one, domain) for one, (_, domain) in zip(given, domains, strict=True)]


def index_of(given: Any, domain: Domain) -> int:
    if isinstance(given, Index):
        try:
            index = plain_integer(given.index, "an index")
        except TypeError as error:
            raise value_error(str(error)) from None
        if not 0 <= index < domain.size:
            raise value_error(f"an index of this domain lies in 0 to {domain.size - 1}")
        return index
    try:
        if isinstance(given, str):
            return domain.index_of_text(given)
        return domain.index_of_number(exact_number(given))
    except ValueError as error:
        # Without the cause: its text may hold the value.
        raise value_error(f"the value is {error}", _REMEDY) from None
