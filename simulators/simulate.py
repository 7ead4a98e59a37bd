"""A whole simulation on disk: a population's reports, the truth about it, and a record."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import fsum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ldp.collection import Collection
from ldp.errors import UsageError
from simulators.attributes import Joint
from simulators.fleet import Fleet
from simulators.population import ABSENT, Population
from simulators.streams import Streams
from simulators.writers import FORMATS, Compression, Format, replacing, report_file

__all__ = ["SimulationRecord", "simulate"]

_TRUTH = pa.schema(
    [
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("attribute", pa.string(), nullable=False),
        pa.field("value", pa.int64(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("frequency", pa.float64()),
        pa.field("n", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class SimulationRecord:
    """What a simulation did; ``simulation.json`` holds these fields under these names.

    Attributes:
        seed: seed of all random words.
        population: the SPEC the population was made from, '' when it was not told.
        devices: number of devices, present or not.
        first_epoch: epoch index of the population's first epoch.
        epochs: number of epochs.
        reports: number of reports written.
        collection: the collection's name.
        digest: its digest, 16 hexadecimal digits.
        protocol: its protocol's name.
        format: format of the report files.
        compression: their compression.
        mean_memoised_inputs: inputs memoised per device at the end; 0 for one-round protocols.
        mean_longitudinal_loss: those inputs times ε∞, `000` Eq. 8; 0 for one-round protocols, which it does
            not speak about.
    """

    seed: int
    population: str
    devices: int
    first_epoch: int
    epochs: int
    reports: int
    collection: str
    digest: str
    protocol: str
    format: str
    compression: str
    mean_memoised_inputs: float
    mean_longitudinal_loss: float


def simulate(  # noqa: PLR0913 - the options of a command, by name
    collection: Collection,
    population: Population | Joint,
    out: Path,
    *,
    seed: int,
    spec: str = "",
    format: Format = "batch",  # noqa: A002 - as the command line calls it
    compression: Compression = "none",
    truth: bool = False,
    first_epoch: int = 0,
    on_epoch: Callable[[int, int], None] | None = None,
) -> SimulationRecord:
    """Let a fleet of devices with the population's values report, epoch after epoch, into files.

    Writes ``reports/`` (one file per epoch with a report, named by
    :func:`simulators.writers.report_file`), with ``truth`` also ``truth.parquet`` (one row per
    epoch, attribute and value: epoch, attribute, value, label, count, frequency, n; the attribute is
    empty where there is only one, n counts the devices present, and frequency is null where there
    are none) and, last, ``simulation.json``, which therefore marks a
    complete simulation. Equal arguments give equal files.

    Args:
        collection: what the devices were given.
        population: the true values; its domain must be the collection's.
        out: output directory, made when missing.
        seed: seed of the devices' random words. The population may use the same one.
        spec: the SPEC of the population, for the record.
        format: a key of :data:`simulators.writers.FORMATS`.
        compression: one of :data:`simulators.writers.COMPRESSIONS`.
        truth: whether to write the truth.
        first_epoch: epoch index of the population's first epoch.
        on_epoch: told the index and the number of reports of every epoch written.

    Returns:
        The record that was written.

    Raises:
        UsageError: there are reports already, the domain or the epochs are not the collection's,
            or there is no such format or compression.
        ValueError: the seed is negative.
    """
    reports = out / "reports"
    _require(collection, population, first_epoch)
    streams = Streams(seed)
    fleet = Fleet(collection.protocol, population.devices, streams)
    try:
        report_file(reports, first_epoch, format, compression)
    except ValueError as error:
        raise UsageError("E-SIMULATE-FORMAT", str(error), remedy="Choose one of these.") from None
    if reports.exists() and (not reports.is_dir() or any(reports.iterdir())):
        raise UsageError(
            "E-SIMULATE-EXISTS",
            "there are reports already, and new ones would be counted together with them",
            where=str(reports),
            remedy="Choose another output directory, or remove this one.",
        )
    reports.mkdir(parents=True, exist_ok=True)
    labels = _labels(collection, population)
    total = 0
    with ExitStack() as stack:
        table: pq.ParquetWriter | None = None
        if truth:
            raw = stack.enter_context(replacing(out / "truth.parquet"))
            table = stack.enter_context(pq.ParquetWriter(raw, _TRUTH))
        for epoch, values in enumerate(population.values(), first_epoch):
            path = report_file(reports, epoch, format, compression)
            batches = fleet.reports(epoch, values)
            written = FORMATS[format](path, batches, digest=collection.digest, compression=compression)
            if table is not None:
                columns = values.reshape(len(values), -1)
                for index, (name, _) in enumerate(collection.histograms):
                    table.write_table(_truth(epoch, name, columns[:, index], labels[index]))
            total += written
            if on_epoch is not None:
                on_epoch(epoch, written)
    record = SimulationRecord(
        seed=seed,
        population=spec,
        devices=population.devices,
        first_epoch=first_epoch,
        epochs=population.epochs,
        reports=total,
        collection=collection.name,
        digest=collection.digest_hex,
        protocol=collection.protocol_label,
        format=format,
        compression=compression,
        mean_memoised_inputs=float(fleet.memoised_inputs().mean()),
        mean_longitudinal_loss=fsum(ledger.mean for ledger in fleet.ledgers()),
    )
    with replacing(out / "simulation.json") as raw:
        raw.write(json.dumps(asdict(record), indent=2, ensure_ascii=False).encode() + b"\n")
    return record


def _require(collection: Collection, population: Population | Joint, first_epoch: int) -> None:
    """Raise unless every report will be one of the collection's."""
    sizes = [domain.size for _, domain in collection.histograms]
    drawn = [part.domain_size for part in _parts(population)]
    if drawn != sizes:
        there, wanted = " and ".join(map(str, drawn)), " and ".join(map(str, sizes))
        raise UsageError(
            "E-SIMULATE-DOMAIN",
            f"the population has {there} values and the collection "
            f"{collection.name!r} has {wanted}, so its values mean nothing to the devices",
            remedy="Make the population from the collection's domain.",
        )
    last = first_epoch + population.epochs - 1
    if not (collection.epochs.contains(first_epoch) and collection.epochs.contains(last)):
        raise UsageError(
            "E-SIMULATE-EPOCHS",
            f"epochs {first_epoch} to {last} are not all among the epochs 0 to "
            f"{collection.epochs.count - 1} of the collection {collection.name!r}, and a pipeline "
            "rejects reports of others",
            remedy="Simulate fewer epochs, start at an earlier one, or raise epoch.count.",
        )


def _parts(population: Population | Joint) -> tuple[Population, ...]:
    return population.parts if isinstance(population, Joint) else (population,)


def _labels(collection: Collection, population: Population | Joint) -> list[pa.Array]:
    """A name per value of each attribute: the collection's, else the data's, else the index."""
    found = []
    for (_, domain), part in zip(collection.histograms, _parts(population), strict=True):
        plain = domain.labels is None and domain.maximum is None
        named = part.labels if plain and part.labels is not None else ("",) * domain.size
        names = [name or domain.label(value) for value, name in enumerate(named)]
        found.append(pa.array(names, pa.string()))
    return found


def _truth(epoch: int, attribute: str, values: NDArray[np.int32], labels: pa.Array) -> pa.Table:
    size = len(labels)
    counts = np.bincount(values[values != ABSENT], minlength=size)
    n = int(counts.sum())
    frequencies = pa.array(counts / n) if n else pa.nulls(size, pa.float64())
    columns = [
        pa.array(np.full(size, epoch, np.int64)),
        pa.repeat(pa.scalar(attribute, pa.string()), size),
        pa.array(np.arange(size, dtype=np.int64)),
        labels,
        pa.array(counts.astype(np.int64)),
        frequencies,
        pa.array(np.full(size, n, np.int64)),
    ]
    return pa.table(columns, schema=_TRUTH)
