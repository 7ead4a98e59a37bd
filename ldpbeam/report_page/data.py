"""What a run wrote, read back and summed up: its record, and each collection epoch by epoch.

Nothing here knows about HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from ldpbeam.collection.slices import Slice
from ldpbeam.durable.record import read_fields
from ldpbeam.over_time.slice_results import SLICES
from ldpbeam.protocols.estimator import Result
from ldpbeam.records.collection_record import CollectionRecord, HistogramRecord
from ldpbeam.records.run_record import RUN_RECORD, RunRecord, read_record
from ldpbeam.report_page.dates import Dates
from ldpbeam.report_page.estimates import Floats, Ints, Slot, Snapshot, Truth, index, read, read_slices
from ldpbeam.report_page.significance import Standing
from ldpbeam.report_page.strings import Walk, walks
from ldpbeam.report_page.text import clean_tree, count, plain, share
from ldpbeam.sums.quartiles import QUARTILES
from ldpbeam.text import clean, plural

ESTIMATES_IN_MEMORY = 2_000_000
"""At most so many estimates are kept in memory, 60 bytes each; of larger runs they are read again."""


@dataclass(frozen=True)
class EpochSummary:
    """One epoch in single numbers; None where there is nothing to compute it from."""

    epoch: int
    start: datetime | None
    n: int
    usable: bool
    provisional: bool
    status: str
    variance: float | None
    mse_raw: float | None
    mse_consistent: float | None
    mse_uniform: float | None
    coverage: float | None


@dataclass(frozen=True)
class CollectionData:
    """One collection of a run, or one attribute of it: its record, overview by epoch, last epoch."""

    collection: CollectionRecord
    histogram: HistogramRecord
    size: int
    """Values of the domain; 0 of strings."""
    alone: bool
    """Whether the run has no other collection (other attributes of it do not count)."""
    distinction: str
    """What tells it from other collections of the run with the same name; mostly empty."""
    slots: Mapping[int, Slot] = field(repr=False)
    truth: Truth | None = field(repr=False)
    epochs: tuple[EpochSummary, ...] = ()
    last: Snapshot | None = None
    ranked: tuple[int, ...] = ()
    """Values in falling order of significance over all epochs."""
    standing: Mapping[int, tuple[float, float, float]] = field(default_factory=dict)
    """For the first of them: mean z against 1/k, z of the change, the change itself."""
    changed: frozenset[int] = frozenset()
    """The values that rose or fell between the two halves of the epochs, among all."""
    dates: Dates = field(default_factory=Dates)
    in_memory: Mapping[int, Snapshot] = field(default_factory=dict, repr=False)
    """The epochs once read, where there is room."""
    sliced: Mapping[int, Slot] = field(default_factory=dict, repr=False)
    """Where the results by slice are; empty without slices."""
    walks: Mapping[int, Walk] = field(default_factory=dict, repr=False)
    """How strings were looked for, by epoch."""

    @property
    def digest(self) -> str:
        return self.collection.digest

    @property
    def title(self) -> str:
        """The collection, which of several with its name, and which of its attributes."""
        return " · ".join(filter(None, (self.collection.name, self.distinction, self.histogram.attribute)))

    @property
    def mean(self) -> bool:
        return self.histogram.is_mean

    @property
    def distribution(self) -> bool:
        """Whether the result is a distribution, with limits of the shares up to values."""
        return self.histogram.result is Result.DISTRIBUTION

    def found(self, epoch: int) -> int:
        """How many strings an epoch has found."""
        return len(self.read(epoch).values) if epoch in self.slots else 0

    @property
    def list_in_short(self) -> str:
        """What the last epoch has found, and what that leaves out."""
        epoch, walk = max(self.walks.items())
        found = plural(self.found(epoch), "string")
        return f"epoch {epoch} found {found}; {walk.others} of the devices hold another one"

    @property
    def collected(self) -> int:
        """How many epochs there are; one that found no string has no table."""
        return max(len(self.epochs), len(self.walks))

    @property
    def discovered(self) -> bool:
        """Whether the result is a list of strings, another one in each epoch."""
        return self.histogram.result is Result.DISCOVERED

    @property
    def declares_atoms(self) -> bool:
        """Whether values are named that many devices share; labels have no round numbers."""
        record = self.collection.definition
        own = {one["name"]: one["domain"] for one in record["attributes"]}
        domain = own.get(self.histogram.attribute, record.get("domain"))
        return domain is None or bool(domain.get("atoms") or domain["labels"])

    @property
    def reach(self) -> str:
        """Where the values of a mean lie: `0 … 100`."""
        return f"0 … {count(max(self.size - 1, 0))}"

    @property
    def uniform(self) -> float | None:
        """1/k, or None where there is no such thing (means, distributions, unknown domain)."""
        return 1.0 / self.size if self.size > 1 and not self.mean and not self.distribution else None

    def written(self, value: float | None, error: float | None) -> str:
        """A result rounded to two digits of its standard error: a share in per cent, a mean as a number."""
        return plain(value, error) if self.mean else share(value, error)

    def read(self, epoch: int, values: Iterable[int] | None = None) -> Snapshot:
        """The snapshot of one epoch, of all values or of a few."""
        if epoch in self.in_memory:
            whole = self.in_memory[epoch]
            return whole if values is None else whole.only(values)
        key = (self.collection.name, self.digest, self.histogram.attribute)
        made = read(self.slots[epoch], key, epoch, values, self._true, distribution=self.distribution)
        # A string is whole in the reports of some prefix lengths alone.
        return replace(made, n=self.walks[epoch].n) if epoch in self.walks else made

    def read_slices(
        self, epoch: int, values: Iterable[int], *, single: bool = False
    ) -> dict[Slice, Snapshot]:
        """The snapshots of a few values by slice, of single labels alone where these are enough."""
        if epoch not in self.sliced:
            return {}
        key = (self.collection.name, self.digest, self.histogram.attribute)
        return read_slices(
            self.sliced[epoch], key, epoch, values, single=single, distribution=self.distribution
        )

    def _true(self, epoch: int, values: Ints) -> Floats:
        """The true frequencies of `values`, shares up to them, or mean; NaN where nobody knows."""
        if self.truth is None:
            return np.full(len(values), np.nan)
        if self.mean:
            return np.full(len(values), self.truth.mean(epoch))
        return self.truth.below(epoch, values) if self.distribution else self.truth.at(epoch, values)


@dataclass(frozen=True)
class Run:
    """Everything that the page is made from."""

    record: RunRecord
    collections: tuple[CollectionData, ...]
    problems: tuple[str, ...]
    simulated: bool


def load(output_dir: Path, truth: Path | None = None) -> Run:
    problems: list[str] = []
    record = _record(output_dir / RUN_RECORD)
    slots, sliced = (index(output_dir / folder, problems) for folder in ("estimates", SLICES))
    problems += _missing(output_dir, record)
    known = {
        (recorded.name, recorded.digest, one.attribute): (recorded, one)
        for recorded in record.collections
        for one in recorded.histograms
    }
    truths = _truths(truth, {key[2] for key in known}, problems)
    alone = len({key[:2] for key in known}) == 1
    room = ESTIMATES_IN_MEMORY // max(len(known), 1)
    collections = []
    for key, (recorded, one) in known.items():
        exact = truths.get(key[2])
        fits = exact is not None and (alone or exact.size == one.size)
        found = one.result is Result.DISCOVERED  # whose values are others in each epoch
        bare = CollectionData(
            recorded,
            one,
            one.size,
            alone,
            _distinction(recorded, [other for other, _ in known.values()]),
            slots.get(key, {}),
            exact if fits and not found else None,
            sliced={} if found else sliced.get(key, {}),
            walks=walks(output_dir, key[1]) if found else {},
        )
        collections.append(_summed_up(bare, room))
    return Run(record, tuple(collections), tuple(problems), bool(truths))


def _distinction(recorded: CollectionRecord, others: Iterable[CollectionRecord]) -> str:
    """Of collections with one name the version; the digest too, where that is the same."""
    versions = {other.digest: other.version for other in others if other.name == recorded.name}
    if len(versions) < 2:
        return ""
    alike = list(versions.values()).count(recorded.version) > 1
    return f"version {recorded.version}" + (f" (digest {recorded.digest})" if alike else "")


def _record(path: Path) -> RunRecord:
    """The record of the run with the texts in it cleaned."""
    record = read_record(path).as_record()
    shown = clean_tree(record)
    for cleaned, recorded in zip(shown["collections"], record["collections"], strict=True):
        cleaned["definition"] = recorded["definition"]
    return read_fields(RunRecord, shown)


def _missing(output_dir: Path, record: RunRecord) -> list[str]:
    """A line where tables are gone that the record names; of each epoch only the newest one matters."""
    gone = [path for path in record.newest_tables.values() if not (output_dir / path).is_file()]
    if not gone:
        return []
    tables = plural(len(gone), "table")
    return [f"{RUN_RECORD} names {tables} of estimates that cannot be found, the first is {clean(gone[0])}."]


def _truths(path: Path | None, attributes: set[str], problems: list[str]) -> dict[str, Truth]:
    """The truth of each attribute; nothing where there is none."""
    if path is None:
        return {}
    try:
        return {attribute: Truth(path, attribute) for attribute in attributes}
    except (OSError, ValueError, KeyError) as error:
        problems.append(f"The truth file could not be read ({type(error).__name__}).")
        return {}


def _summed_up(data: CollectionData, room: int) -> CollectionData:
    """The collection with all its epochs read once, and kept where they are at most ``room`` numbers."""
    order = sorted(data.slots)
    standing = Standing(halves=len(order) // 2)
    summaries: list[EpochSummary] = []
    last: Snapshot | None = None
    whole: dict[int, Snapshot] = {}
    begun = Dates()
    for place, epoch in enumerate(order):
        snapshot = data.read(epoch)
        if data.size * len(order) <= room:
            whole[epoch] = snapshot
        if begun.start is None and snapshot.start is not None:
            begun = Dates(epoch, snapshot.start, data.collection.epoch_seconds)
        summaries.append(_summary(snapshot, data.uniform, consistent=not data.distribution))
        standing.add(place, snapshot, data.uniform or 0.0)
        if snapshot.usable or last is None or not last.usable:
            last = snapshot
    ranked = standing.ranked(limit=6)
    if data.distribution:
        usable = last is not None and last.usable
        ranked = [int(last.values[last.quantile(part)[0]]) for part in QUARTILES] if last and usable else []
        ranked = list(dict.fromkeys(ranked))
    return replace(
        data,
        epochs=tuple(summaries),
        last=last,
        ranked=() if data.discovered else tuple(ranked),
        standing={value: standing.of(value) for value in ranked},
        changed=frozenset() if data.distribution or data.discovered else standing.changed(),
        dates=begun,
        in_memory=whole,
    )


def _summary(snapshot: Snapshot, uniform: float | None, *, consistent: bool) -> EpochSummary:
    """`consistent` says whether consistent numbers are of the same things as the estimates."""
    truth = snapshot.truth
    inside = (snapshot.low <= truth) & (truth <= snapshot.high)
    known = np.isfinite(snapshot.low) & np.isfinite(truth)
    return EpochSummary(
        epoch=snapshot.epoch,
        start=snapshot.start,
        n=snapshot.n,
        usable=snapshot.usable,
        provisional=snapshot.provisional,
        status=snapshot.status,
        variance=_mean(snapshot.std_error**2),
        mse_raw=_mean((snapshot.estimate - truth) ** 2),
        mse_consistent=_mean((snapshot.consistent - truth) ** 2) if snapshot.usable and consistent else None,
        mse_uniform=None if uniform is None else _mean((uniform - truth) ** 2),
        coverage=float(inside[known].mean()) if known.any() else None,
    )


def _mean(values: Floats) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
