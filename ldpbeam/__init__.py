"""Local differential privacy telemetry: what devices report, and what can be learnt from it.

    >>> import ldpbeam
    >>> collection = ldpbeam.load_collection("examples/minutes_in_app.yaml")
    >>> reports = ldpbeam.simulate(collection, [5] * 700 + [9] * 300)
    >>> table = ldpbeam.estimate(collection, reports)
    >>> table.num_rows, table["n"][5].as_py()
    (360, 1000)

Nothing else is loaded by ``import ldpbeam``: a device needs neither numpy nor Beam. Names below are looked up
when they are first used, and functions import what they need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    import pyarrow as pa

    from ldpbeam.admission import Admission, ReportColumns
    from ldpbeam.client import Device
    from ldpbeam.client.sender import Sender
    from ldpbeam.collection.collection import Collection
    from ldpbeam.collection.file import load_collection, parse_collection
    from ldpbeam.collection.values import Index
    from ldpbeam.epoch_result import result_of_epoch
    from ldpbeam.errors import CollectionError, LdpError
    from ldpbeam.protocols import Parameters, protocol
    from ldpbeam.simulators.fleet import Fleet, Values
    from ldpbeam.simulators.slices import Labels
    from ldpbeam.sums.pooling import pooled
    from ldpbeam.sums.public import (
        cumulative_shares,
        group_changes,
        group_shares,
        quantiles,
        read_counts,
        read_summaries,
        value_mean,
    )

__version__ = "0.2.0.dev0"

_HOMES = {
    "Collection": "ldpbeam.collection.collection",
    "CollectionError": "ldpbeam.errors",
    "Device": "ldpbeam.client",
    "Fleet": "ldpbeam.simulators.fleet",
    "Index": "ldpbeam.collection.values",
    "LdpError": "ldpbeam.errors",
    "Parameters": "ldpbeam.protocols",
    "Sender": "ldpbeam.client.sender",
    "cumulative_shares": "ldpbeam.sums.public",
    "group_changes": "ldpbeam.sums.public",
    "group_shares": "ldpbeam.sums.public",
    "load_collection": "ldpbeam.collection.file",
    "parse_collection": "ldpbeam.collection.file",
    "pooled": "ldpbeam.sums.pooling",
    "protocol": "ldpbeam.protocols",
    "quantiles": "ldpbeam.sums.public",
    "result_of_epoch": "ldpbeam.epoch_result",
    "read_counts": "ldpbeam.sums.public",
    "read_summaries": "ldpbeam.sums.public",
    "value_mean": "ldpbeam.sums.public",
}
"""Public names that are defined elsewhere, and the modules that define them."""

__all__ = [
    "Collection",
    "CollectionError",
    "Device",
    "Fleet",
    "Index",
    "LdpError",
    "Parameters",
    "Sender",
    "admit",
    "cumulative_shares",
    "estimate",
    "group_changes",
    "group_shares",
    "load_collection",
    "parse_collection",
    "pooled",
    "protocol",
    "quantiles",
    "read",
    "read_counts",
    "read_summaries",
    "result_of_epoch",
    "simulate",
    "value_mean",
]


def __getattr__(name: str) -> Any:
    """Look a public name up where it is defined."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """Public names too that have not been used yet."""
    return sorted({*globals(), *__all__})


def simulate(
    collection: Collection,
    values: Values,
    *,
    epoch: int = 0,
    seed: int = 0,
    slice: Labels = None,
) -> ReportColumns:
    """Reports that new devices with these values would send in their first epoch: for experiments only.

        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> len(ldpbeam.simulate(collection, ["red", "green", "green", None], seed=7))
        3

    Several epochs of the same devices need a :class:`Fleet`, which remembers. Where devices memoise, every
    epoch but 0 is refused here: the reports of several epochs would be independent of each other, and the
    errors of their mean far too small.

    Args:
        collection: what the devices were given.
        values: as :meth:`Fleet.report` takes them: a label, a number or an :class:`Index` for each device,
            None for one that does not report. An ``Index`` of an array of integers is quickest.
        epoch: index.
        seed: of all random words; equal arguments give equal reports, and those of the first epoch of a
            :class:`Fleet` with this seed.
        slice: as :meth:`Fleet.report` takes it.

    Raises:
        ValueError: values of the wrong shape, or of no device.
        DeviceError: a value stands for none of the domain's; the slice or the epoch is none of the
            collection's.
        UsageError: another epoch than 0 of a collection whose devices memoise and report more than once.
    """
    from ldpbeam.collection.values import Index, value_error
    from ldpbeam.errors import UsageError
    from ldpbeam.simulators.fleet import Fleet, fleet_indices

    life, memoises = collection.participation, collection.protocol.guarantee.memoised_ratio is not None
    if epoch and memoises and (life is None or life.reports > 1):
        raise UsageError(
            "E-SIMULATE-MEMO",
            f"simulate() has no memo, and devices of {collection.name!r} repeat what they memoised: reports "
            f"of epoch {epoch} would be independent of other epochs, and errors over time far too small",
            remedy="Make fleet = ldpbeam.Fleet(collection, devices, seed), and report each epoch with "
            "fleet.report(values, epoch).",
        )
    indices = fleet_indices(collection, values)
    if not len(indices):
        raise value_error("there is no value, so no device", "Give one for each device.")
    return Fleet(collection, len(indices), seed).report(Index(indices), epoch, slice=slice)


def admit(collections: Collection | Iterable[Collection], messages: Iterable[bytes]) -> Admission:
    """Judge messages of devices, whatever their bytes: which reports count, and why others do not.

        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> message = ldpbeam.Device.ephemeral(collection).report("blue", epoch=0)
        >>> admission = ldpbeam.admit(collection, [message, b"junk"])
        >>> [len(columns) for columns in admission.admitted]
        [1]
        >>> [rejection.reason.value for rejection in admission.rejections]
        ['malformed']

    Args:
        collections: what reports may belong to.
        messages: serialised ``Report`` or ``ReportBatch`` each.
    """
    from ldpbeam.admission import Admission
    from ldpbeam.collection.collection import Collection
    from ldpbeam.collection.distinct_collections import by_wire_digest
    from ldpbeam.reports import admit_frames
    from ldpbeam.wire import codec

    given = [collections] if isinstance(collections, Collection) else collections
    admission = Admission()
    admit_frames(codec.joined(list(messages)), by_wire_digest(given), "", admission)
    return admission


def estimate(
    collection: Collection,
    reports: ReportColumns | Admission | Iterable[ReportColumns | Admission],
    *,
    deduplicate: bool = True,
    by_slice: bool = False,
) -> pa.Table:
    """Estimates with intervals from admitted reports, in the columns of the Parquet files of ``estimates/``.

        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> reports = ldpbeam.simulate(collection, ["red"] * 6000 + ["blue"] * 4000, seed=7)
        >>> table = ldpbeam.estimate(collection, reports)
        >>> for row in table.select(["label", "estimate", "ci_low", "ci_high"]).to_pylist():
        ...     print("{label:13} {estimate:6.3f} {ci_low:6.3f} {ci_high:6.3f}".format(**row))
        red            0.596  0.558  0.635
        green          0.021  0.000  0.060
        blue           0.378  0.340  0.417
        none of these -0.012 -0.012  0.026

    Consistent frequencies are not to be added up: each is biased a little, and the biases of many values add
    up too. Sums of raw estimates have no bias, if the values were chosen without looking at them.

    Args:
        collection: what devices and server agreed on.
        reports: of one epoch or of several, in any order and any parts: what :func:`admit`, :func:`simulate`
            or :meth:`Fleet.report` returns, or a list of that.
        deduplicate: whether only one of several reports with the same id counts.
        by_slice: whether to give the columns of ``slices/``, with rows for every slice of the collection.

    Returns:
        A row for each epoch, attribute and value; docs/outputs.md explains the columns.

    Raises:
        UsageError: these are no admitted reports, belong to another collection, or to an epoch that a run
            would refuse: one that the collection does not have, or that began after it was retired.
    """
    from functools import partial

    import pyarrow as pa

    from ldpbeam.epoch_result import result_of_epoch
    from ldpbeam.reports import columns_by_epoch
    from ldpbeam.tables import epoch_table, fixed_columns, table_by_slice

    fixed = fixed_columns(collection)
    results = (
        result_of_epoch(collection, epoch, parts, deduplicate=deduplicate)
        for epoch, parts in sorted(columns_by_epoch(collection, reports).items())
    )
    whole = partial(epoch_table, collection, fixed=fixed)
    if by_slice:
        tables = [table_by_slice(collection, result, whole) for result in results]
    else:
        tables = [fixed["schema"].empty_table(), *map(whole, results)]
    return pa.concat_tables(tables, promote_options="default")


def read(results: str | PathLike[str], *, slice: Mapping[str, str] | None = None) -> pa.Table:
    """What a run has published: the newest revision of every epoch, with the columns of ``estimates/``.

        >>> try:
        ...     ldpbeam.read("no-such-folder")
        ... except ldpbeam.LdpError as error:
        ...     print(error.message)
        no-such-folder does not exist

    ``.to_pandas()`` makes a data frame of it. Errors of different epochs are not independent: see
    docs/over-time.md, and ``ldpbeam export`` for means over weeks or months.

    Consistent frequencies are not to be added up: each is biased a little, and the biases of many values add
    up too. Sums of raw estimates have no bias, if the values were chosen without looking at them.

    Args:
        results: the directory that was ``--output`` of a run; a folder of such tables will do.
        slice: labels by dimension, such as ``{"channel": "beta"}``, for the results of that slice: one label
            of a dimension, or one of each. None for all devices.

    Returns:
        A row for each collection, attribute, epoch and value, in that order; docs/outputs.md explains the
        columns.

    Raises:
        UsageError: no estimates are there, or damaged ones; results have no such slice.
    """
    from pathlib import Path

    from ldpbeam.over_time.results import read_results

    return read_results(Path(results), slice)
