"""A whole simulation on disk: a population's reports, the truth about it, and a record."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ldpbeam.admission import ReportColumns, as_sent
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import COLUMN
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.collection.values import Index
from ldpbeam.durable.document import document
from ldpbeam.durable.file import PUBLIC, replacing
from ldpbeam.errors import UsageError, option_error

from ..fleet import Fleet, fleet_indices
from ..population.joint import Joint
from ..population.sliced import SlicedPopulation
from ..population.specs import ABSENT, Population
from .files import Compression, Format, report_file, write_reports

Deliver = Callable[[int, int, Iterator[ReportColumns]], int]
"""Takes an epoch, how many devices report in it, and their reports; returns how many it delivered."""

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
    """What a simulation did; ``simulation.json`` holds these fields under these names."""

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
    notes: list[str]


def simulate(  # noqa: PLR0913 - the options of a command, by name
    collection: Collection,
    population: Population | Joint | SlicedPopulation,
    out: Path,
    *,
    seed: int,
    spec: str = "",
    notes: Sequence[str] = (),
    format: Format = "batch",  # noqa: A002 - as the command line calls it
    compression: Compression = "none",
    truth: bool = False,
    first_epoch: int = 0,
    on_epoch: Callable[[int, int], None] | None = None,
) -> SimulationRecord:
    """Let a fleet of devices with the population's values report, epoch after epoch, into files.

    Where the collection has slices and the population says none, devices draw them with equal shares.
    ``simulation.json`` is written last and so marks a complete simulation. Equal arguments give equal files.
    """
    reports = out / "reports"
    simulation = PopulationEpochs(collection, population, seed, first_epoch)
    try:
        report_file(reports, first_epoch, format, compression)
    except ValueError as error:
        raise option_error(str(error), "Choose one of these.") from None
    refuse_existing(reports)
    reports.mkdir(parents=True, exist_ok=True)

    def write(epoch: int, _: int, batches: Iterator[ReportColumns]) -> int:
        path = report_file(reports, epoch, format, compression)
        sent = (part for batch in batches for part in as_sent(collection, batch))
        written = write_reports(format, path, sent, compression=compression)
        # A run takes no report from before its epoch: a simulated one lies in a file of its own time.
        end = collection.epochs.end(epoch)
        # An epoch in which nobody reports has no file.
        if path.exists() and end > path.stat().st_mtime:
            os.utime(path, (end, end))
        return written

    total = simulation.run(write, out / "truth.parquet" if truth else None, on_epoch)
    record = SimulationRecord(
        **simulation.facts(spec, notes), reports=total, format=format, compression=compression
    )
    write_record(record, out)
    return record


class PopulationEpochs:
    """The epochs of a population, whatever becomes of the reports. Arguments and errors as for simulate()."""

    def __init__(
        self,
        collection: Collection,
        population: Population | Joint | SlicedPopulation,
        seed: int,
        first_epoch: int,
    ) -> None:
        plain = population.population if isinstance(population, SlicedPopulation) else population
        _require(collection, plain, first_epoch)
        self._collection, self._population, self._first_epoch = collection, plain, first_epoch
        self._fleet = Fleet(collection, plain.devices, seed)
        self.random_words = self._fleet.random_words
        self._sliced = SlicedPopulation.drawn(plain, collection.slices, self.random_words)
        if isinstance(population, SlicedPopulation):
            self._sliced = population

    def run(self, deliver: Deliver, truth: Path | None, on_epoch: Callable[[int, int], None] | None) -> int:
        labels = _labels(self._collection, self._population)
        prints = self._fingerprints()
        total = 0
        with ExitStack() as stack:
            table: pq.ParquetWriter | None = None
            if truth is not None:
                raw = stack.enter_context(replacing(truth, PUBLIC, force=False))
                table = stack.enter_context(pq.ParquetWriter(raw, _truth_schema(self._collection)))
            digests = np.array(list(self._collection.slice_digests), np.uint64)
            for epoch, (values, places) in enumerate(self._sliced.epochs(), self._first_epoch):
                columns = values.reshape(len(values), -1)
                said = digests[places] if self._collection.slices else None
                held = values if prints is None else prints[values]
                delivered = deliver(epoch, *self._fleet.batches(Index(held), epoch, said))
                if table is not None:
                    for index, (name, _) in enumerate(self._collection.histograms):
                        about = epoch, name, labels[index]
                        for rows in _truths(self._collection, about, columns[:, index], places):
                            table.write_table(rows)
                total += delivered
                if on_epoch is not None:
                    on_epoch(epoch, delivered)
        return total

    def _fingerprints(self) -> NDArray[np.int64] | None:
        """Of each string of the population, and last of an absent device; None where values are listed."""
        if not self._collection.is_discovery:
            return None
        (part,) = _parts(self._population)
        return fleet_indices(self._collection, [*(part.labels or ()), None])

    def facts(self, spec: str, notes: Sequence[str]) -> dict[str, Any]:
        """What :class:`SimulationRecord` says about devices and collection, once all have reported."""
        return {
            "seed": self.random_words.seed,
            "population": spec,
            "devices": self._population.devices,
            "first_epoch": self._first_epoch,
            "epochs": self._population.epochs,
            "collection": self._collection.name,
            "digest": self._collection.digest_hex,
            "protocol": self._collection.protocol_label,
            "mean_memoised_inputs": float(self._fleet.memoised_inputs().mean()),
            "mean_longitudinal_loss": fsum(ledger.mean for ledger in self._fleet.ledgers()),
            "notes": list(notes),
        }


def refuse_existing(reports: Path) -> None:
    if reports.exists() and (not reports.is_dir() or any(reports.iterdir())):
        raise UsageError(
            "E-USAGE-OUTPUT",
            "there are reports already, and new ones would be counted together with them",
            where=str(reports),
            remedy="Choose another output directory, or remove this one.",
        )


def write_record(record: SimulationRecord, out: Path) -> None:
    with replacing(out / "simulation.json", PUBLIC, force=False) as raw:
        raw.write(document(asdict(record)))


def _require(collection: Collection, population: Population | Joint, first_epoch: int) -> None:
    """Raise unless every report will be one of the collection's."""
    last = first_epoch + population.epochs - 1
    if not (collection.epochs.contains(first_epoch) and collection.epochs.contains(last)):
        raise UsageError(
            "E-USAGE-POPULATION",
            f"epochs {first_epoch} to {last} are not all among the epochs 0 to "
            f"{collection.epochs.count - 1} of the collection {collection.name!r}, and a pipeline "
            "rejects reports of others",
            remedy="Simulate fewer epochs, start at an earlier one, or raise epoch.count.",
        )


def _parts(population: Population | Joint) -> tuple[Population, ...]:
    return population.parts if isinstance(population, Joint) else (population,)


def _labels(collection: Collection, population: Population | Joint) -> list[pa.Array]:
    """A name per value of each attribute: the collection's, else the data's, else the index."""
    columns = []
    for (_, domain), part in zip(collection.histograms, _parts(population), strict=True):
        if isinstance(domain, StringDomain):
            columns.append(pa.array(map(domain.strings.label, part.labels or ()), pa.string()))
            continue
        plain = domain.labels is None and domain.maximum is None
        named = part.labels if plain and part.labels is not None else ("",) * domain.size
        names = [name or domain.label(value) for value, name in enumerate(named)]
        columns.append(pa.array(names, pa.string()))
    return columns


def _truth_schema(collection: Collection) -> pa.Schema:
    named = [pa.field(COLUMN + one.name, pa.string()) for one in collection.slices.dimensions]
    return pa.schema([*named, *_TRUTH])


def _truths(
    collection: Collection,
    about: tuple[int, str, pa.Array],
    values: NDArray[np.int32],
    places: NDArray[np.int64],
) -> Iterator[pa.Table]:
    """The truth of the whole, and of each slice of a result; a dimension that is summed over is null."""
    size, there = len(about[2]), values != ABSENT
    combinations = max(1, len(collection.slices.combinations))
    cells = places[there] * size + values[there]
    counts = np.bincount(cells, minlength=combinations * size).reshape(combinations, size)
    place_of = {digest: place for place, digest in enumerate(collection.slice_digests)}
    schema = _truth_schema(collection)
    yield _truth(schema, {}, about, counts.sum(axis=0))
    for slice_, digests in collection.published_slices.items():
        some = counts[[place_of[digest] for digest in digests if digest in place_of]]
        yield _truth(schema, dict(slice_), about, some.sum(axis=0))


def _truth(
    schema: pa.Schema, said: dict[str, str], about: tuple[int, str, pa.Array], counts: NDArray[np.int64]
) -> pa.Table:
    epoch, attribute, labels = about
    size, n = len(labels), int(counts.sum())
    frequencies = pa.array(counts / n) if n else pa.nulls(size, pa.float64())
    named = schema.names[: len(schema.names) - len(_TRUTH.names)]
    columns = [
        *(pa.repeat(pa.scalar(said.get(name.removeprefix(COLUMN)), pa.string()), size) for name in named),
        pa.array(np.full(size, epoch, np.int64)),
        pa.repeat(pa.scalar(attribute, pa.string()), size),
        pa.array(np.arange(size, dtype=np.int64)),
        labels,
        pa.array(counts.astype(np.int64)),
        frequencies,
        pa.array(np.full(size, n, np.int64)),
    ]
    return pa.table(columns, schema=schema)
