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

from ldpbeam.arrays import read_only

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    import pyarrow as pa
    from numpy.typing import ArrayLike

    from ldpbeam.client import Device
    from ldpbeam.collection.collection import Collection
    from ldpbeam.collection.file import load_collection, parse_collection
    from ldpbeam.epoch_result import result_of_epoch
    from ldpbeam.errors import CollectionError, LdpError
    from ldpbeam.protocols import Parameters, protocol
    from ldpbeam.reports import Admission, ReportColumns
    from ldpbeam.sums.front import cumulative_shares, group_shares, quantiles, value_mean
    from ldpbeam.sums.pooled import pooled

__version__ = "0.1.0"

_HOMES = {
    "Collection": "ldpbeam.collection.collection",
    "CollectionError": "ldpbeam.errors",
    "Device": "ldpbeam.client",
    "LdpError": "ldpbeam.errors",
    "Parameters": "ldpbeam.protocols",
    "cumulative_shares": "ldpbeam.sums.front",
    "group_shares": "ldpbeam.sums.front",
    "load_collection": "ldpbeam.collection.file",
    "parse_collection": "ldpbeam.collection.file",
    "pooled": "ldpbeam.sums.pooled",
    "protocol": "ldpbeam.protocols",
    "quantiles": "ldpbeam.sums.front",
    "result_of_epoch": "ldpbeam.epoch_result",
    "value_mean": "ldpbeam.sums.front",
}
"""Public names that are defined elsewhere, and the modules that define them."""

__all__ = [
    "Collection",
    "CollectionError",
    "Device",
    "LdpError",
    "Parameters",
    "admit",
    "cumulative_shares",
    "estimate",
    "group_shares",
    "load_collection",
    "parse_collection",
    "pooled",
    "protocol",
    "quantiles",
    "read",
    "result_of_epoch",
    "simulate",
    "value_mean",
]


def __getattr__(name: str) -> Any:
    """Look a public name up where it is defined."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    """Public names too that have not been used yet."""
    return sorted({*globals(), *__all__})


def simulate(collection: Collection, values: ArrayLike, *, epoch: int = 0, seed: int = 0) -> ReportColumns:
    """Reports that devices with these values would send in one epoch: for experiments, never for devices.

        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> len(ldpbeam.simulate(collection, [0, 1, 1, 3], seed=7))
        4

    Args:
        collection: what the devices were given.
        values: integers (devices,), each an index into the domain, or -1 for a device that does not report;
            with several attributes (devices, attributes).
        epoch: index.
        seed: of all random words; equal arguments give equal reports. The devices have not reported before;
            :class:`ldpbeam.simulators.fleet.Fleet` has devices that memoise answers over several epochs.

    Raises:
        TypeError: values that are no integers.
        ValueError: values outside the domain, or of the wrong shape.
    """
    import numpy as np

    from ldpbeam.reports import ReportColumns
    from ldpbeam.simulators.fleet import Fleet
    from ldpbeam.simulators.participation import silenced
    from ldpbeam.simulators.words import RandomWords

    words, asked = RandomWords(seed), np.asarray(values).astype(np.int64, casting="safe")
    held = silenced(collection.participation, words, epoch, asked)
    parts = list(Fleet(collection.protocol, len(held), words).reports(epoch, held))
    ids = np.concatenate([np.zeros(0, np.uint64), *(part.report_ids for part in parts)])
    empty = np.zeros((0, collection.protocol.payload_size), np.uint8)
    payloads = read_only(np.concatenate([empty, *(part.payloads for part in parts)]))
    return ReportColumns(collection.digest, epoch, ids, payloads)


def admit(collections: Collection | Iterable[Collection], messages: Iterable[bytes]) -> Admission:
    """Judge messages of devices, whatever their bytes: which reports count, and why others do not.

        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> message = ldpbeam.Device.ephemeral(collection).report(2, epoch=0)
        >>> admission = ldpbeam.admit(collection, [message, b"junk"])
        >>> [len(columns) for columns in admission.admitted]
        [1]
        >>> [rejection.reason.value for rejection in admission.rejections]
        ['malformed']

    Args:
        collections: what reports may belong to.
        messages: serialised ``Report`` or ``ReportBatch`` each.
    """
    from ldpbeam.collection.collection import Collection
    from ldpbeam.reports import Admission, admit_frames
    from ldpbeam.wire import codec

    given = [collections] if isinstance(collections, Collection) else collections
    admission = Admission()
    admit_frames(codec.joined(list(messages)), {one.digest: one for one in given}, "", admission)
    return admission


def estimate(
    collection: Collection, reports: ReportColumns | Iterable[ReportColumns], *, deduplicate: bool = True
) -> pa.Table:
    """Estimates with intervals from admitted reports, in the columns of the Parquet files of ``estimates/``.

        >>> collection = ldpbeam.load_collection("examples/first_choice.yaml")
        >>> reports = ldpbeam.simulate(collection, [0] * 6000 + [2] * 4000, seed=7)
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
        reports: of one epoch or of several, in any order and any parts; ``admitted`` of :func:`admit`, or
            what :func:`simulate` returns.
        deduplicate: whether only one of several reports with the same id counts.

    Returns:
        A row for each epoch, attribute and value; docs/outputs.md explains the columns.

    Raises:
        ValueError: reports of another collection.
    """
    import pyarrow as pa

    from ldpbeam.epoch_result import result_of_epoch
    from ldpbeam.reports import ReportColumns
    from ldpbeam.tables import epoch_table, fixed_columns

    by_epoch: dict[int, list[ReportColumns]] = {}
    for part in [reports] if isinstance(reports, ReportColumns) else reports:
        if part.digest != collection.digest:
            raise ValueError(f"these reports do not belong to collection {collection.name!r}")
        by_epoch.setdefault(part.epoch, []).append(part)
    fixed = fixed_columns(collection)
    results = (
        result_of_epoch(collection, epoch, parts, deduplicate=deduplicate)
        for epoch, parts in sorted(by_epoch.items())
    )
    tables = [epoch_table(collection, result, fixed) for result in results]
    return pa.concat_tables([fixed["schema"].empty_table(), *tables])


def read(results: str | PathLike[str]) -> pa.Table:
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

    Returns:
        A row for each collection, attribute, epoch and value, in that order; docs/outputs.md explains the
        columns.

    Raises:
        UsageError: no estimates are there, or damaged ones.
    """
    from pathlib import Path

    from ldpbeam.over_time.results import read_results

    return read_results(Path(results))
