"""The slices that devices of a fleet say: labels as people give them, and digests as reports carry them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbeam.arrays import Flags, Uints
from ldpbeam.collection.collection import Collection
from ldpbeam.errors import DeviceError

if TYPE_CHECKING:
    Labels = Mapping[str, Any] | Uints | None
    """For each dimension one label for all devices, or one for each; or the digests of all."""


def digests_said(collection: Collection, given: Labels, reports: Flags) -> Uints | None:
    """The digests of the devices that report, uint64 in their order; None without slices."""
    if isinstance(given, np.ndarray):
        digests = np.asarray(given, np.uint64)
        if not collection.slices or digests.shape != reports.shape:
            raise ValueError(f"there are {reports.size} devices, and {digests.size} digests of slices")
        return digests[reports]
    columns = {name: _column(labels) for name, labels in dict(given or {}).items()}
    of_all = {name: labels for name, labels in columns.items() if isinstance(labels, str)}
    if of_all.keys() == columns.keys():
        slice_ = collection.slices.of_device(of_all)
        if not collection.slices:
            return None
        return np.full(int(reports.sum()), collection.slice_digest(slice_), np.uint64)
    for name, labels in columns.items():
        if not isinstance(labels, str) and len(labels) != reports.size:
            raise ValueError(f"there are {reports.size} devices, and {len(labels)} labels of {name}")
    return np.fromiter(_digests(collection, columns, reports), np.uint64, int(reports.sum()))


def _column(labels: Any) -> str | list[Any]:
    if isinstance(labels, str):
        return labels
    return list(labels.to_pylist() if hasattr(labels, "to_pylist") else labels)


def _digests(collection: Collection, columns: dict[str, str | list[Any]], reports: Flags) -> Iterator[int]:
    known: dict[tuple[Any, ...], int] = {}
    whole = [[labels] * reports.size if isinstance(labels, str) else labels for labels in columns.values()]
    for device, said in enumerate(zip(*whole, strict=True)):
        if not reports[device]:
            continue
        if said not in known:
            try:
                slice_ = collection.slices.of_device(dict(zip(columns, said, strict=True)))
            except DeviceError as error:
                raise error.at(f"device {device}") from None
            known[said] = collection.slice_digest(slice_)
        yield known[said]
