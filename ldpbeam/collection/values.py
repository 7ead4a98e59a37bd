"""What a person gives as a device's value, and the index that it stands for: for devices and simulations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.errors import DeviceError


def value_of(collection: Collection, given: Any) -> Any:
    """The value of one device as the collection's protocol takes it.

    Args:
        collection: what the device was given.
        given: an index, or a label where the collection lists labels; a label that is not listed is the
            collection's ``other``. For several attributes a sequence of them, or a mapping by name.

    Returns:
        A plain int, or a tuple of one for each attribute.

    Raises:
        TypeError: it is of no type that can be reported.
        ValueError: it lies outside the domain.
        DeviceError: it is no label, or a mapping with other names. No text contains the value.
    """
    return collection.protocol.require_value(_indices(collection, given))


def value_error(message: str, remedy: str = "") -> DeviceError:
    """A value cannot be reported."""
    return DeviceError("E-DEVICE-VALUE", message, remedy=remedy)


def require_names(collection: Collection, given: Mapping[Any, Any]) -> None:
    """Raise DeviceError unless a mapping has all attributes of a collection, and nothing else."""
    names = [name for name, _ in collection.histograms]
    if set(given) != set(names):
        raise value_error(f"needs one value for each of the {len(names)} attributes, by name")


def _indices(collection: Collection, given: Any) -> Any:
    """Indices in place of labels."""
    domains = collection.histograms
    if collection.domain is not None:
        return _index(given, domains[0][1])
    if isinstance(given, Mapping):
        require_names(collection, given)
        given = [given[name] for name, _ in domains]
    if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != len(domains):
        return given  # which the protocol refuses
    return [_index(one, domain) for one, (_, domain) in zip(given, domains, strict=True)]


def _index(given: Any, domain: Domain) -> Any:
    """The index of a label; anything else as it is."""
    if not isinstance(given, str):
        return given
    try:
        return domain.index(given)
    except ValueError:
        # Without the cause: its text may hold the value.
        remedy = "Give an index: the collection lists no labels."
        if domain.labels is not None:
            remedy = "Add the label, or other: LABEL to the collection's domain."
        raise value_error("the value is none of the domain's", remedy) from None
