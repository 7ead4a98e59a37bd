"""The Parquet files that the page is made from: estimates of a run and the truth of a simulation.

Files are read one epoch at a time, so memory is a few arrays of the domain's size whatever the
number of epochs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset
from numpy.typing import NDArray

from ldpbeam.accounting import EARLY
from ldpbeam.collection.slices import COLUMN, Slice
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.report_page.text import LABEL_LIMIT
from ldpbeam.sums.distribution import curve_quantile
from ldpbeam.table_file import published_table
from ldpbeam.tables import CUMULATIVE
from ldpbeam.text import clean

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Key = tuple[str, str, str]
"""Collection, digest, attribute (empty where there is only one)."""

TruthOf = Callable[[int, Ints], Floats]
"""What is true in an epoch of values by their codes."""

_KEYS = ["collection", "digest", "epoch", "revision"]
_FLOATS = ["estimate", "std_error", "std_error_floor", "ci_low", "ci_high", "consistent"]
_SHARES = dict(zip(("estimate", "ci_low", "ci_high"), CUMULATIVE, strict=True))
"""Columns that a distribution has in the place of others."""
_NOT_SHOWN = frozenset({"collection", "version", "epoch_end", "ci_low_all", "ci_high_all"})
"""Columns that the page does not need: of a large domain each takes megabytes."""


@dataclass(frozen=True)
class Snapshot:
    """The estimates of one collection and epoch, sorted by value; missing numbers are NaN."""

    epoch: int
    start: datetime | None
    n: int
    status: str
    pane: str
    method: str
    values: Ints
    reports: Ints
    labels: tuple[str, ...]
    support: Ints
    estimate: Floats
    std_error: Floats
    floor: Floats
    low: Floats
    high: Floats
    consistent: Floats
    truth: Floats

    def only(self, values: Iterable[int]) -> Snapshot:
        """The same of a few values, by their codes; those that are not there are left out."""
        places = np.flatnonzero(np.isin(self.values, np.fromiter(values, np.int64)))
        taken: dict[str, Any] = {
            name: array[places] for name, array in vars(self).items() if isinstance(array, np.ndarray)
        }
        return replace(self, labels=tuple(self.labels[place] for place in places.tolist()), **taken)

    def quantile(self, part: float) -> tuple[int, int, int]:
        """Of a distribution: the first value up to which that part of the devices lies, with limits."""
        return curve_quantile(self.estimate, self.low, self.high, part)

    def numbers(self, place: int) -> dict[str, float]:
        """The numbers of one value that charts draw, by their names."""
        names = ("estimate", "low", "high", "consistent", "truth")
        return {name: float(getattr(self, name)[place]) for name in names}

    @property
    def simulated(self) -> bool:
        return bool(np.isfinite(self.truth).any())

    @property
    def usable(self) -> bool:
        return bool(np.isfinite(self.estimate).any())

    @property
    def provisional(self) -> bool:
        """Whether the epoch had not ended when this was published."""
        return self.pane == EARLY


@dataclass
class Slot:
    """Where the newest revision of one collection, attribute and epoch is."""

    revision: int
    paths: list[Path]


class Truth:
    """True frequencies of a simulation in all slices, by epoch; a value that nobody held has no row."""

    def __init__(self, path: Path, attribute: str = "") -> None:
        rows = pyarrow.dataset.dataset(path, format="parquet")
        conditions = [pc.is_null(pc.field(name)) for name in rows.schema.names if name.startswith(COLUMN)]
        if "attribute" in rows.schema.names:
            conditions.append(pc.field("attribute") == attribute)
        table = rows.to_table(
            columns=["epoch", "value", "frequency"],
            filter=reduce(and_, conditions) if conditions else None,
        )
        epoch = table["epoch"].to_numpy()
        order = np.lexsort((table["value"].to_numpy(), epoch))
        self._value = table["value"].to_numpy()[order]
        self._frequency = table["frequency"].to_numpy()[order]
        epochs, starts = np.unique(epoch[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        self._where = dict(zip(epochs.tolist(), zip(starts, ends, strict=True), strict=True))
        self.size = int(self._value.max()) + 1 if len(self._value) else 0

    def at(self, epoch: int, values: Ints) -> Floats:
        """Frequencies of `values`; NaN throughout where the epoch is unknown."""
        if epoch not in self._where:
            return np.full(len(values), np.nan)
        start, end = self._where[epoch]
        known, frequency = self._value[start:end], self._frequency[start:end]
        place = np.minimum(np.searchsorted(known, values), len(known) - 1)
        return np.where(known[place] == values, frequency[place], 0.0)

    def below(self, epoch: int, values: Ints) -> Floats:
        """Shares at `values` or below them; NaN throughout where the epoch is unknown."""
        if epoch not in self._where:
            return np.full(len(values), np.nan)
        here = slice(*self._where[epoch])
        whole = np.concatenate([[0.0], np.cumsum(self._frequency[here])])
        return np.asarray(whole[np.searchsorted(self._value[here], values, "right")], np.float64)

    def mean(self, epoch: int) -> float:
        """The mean of the values that devices held; NaN where the epoch is unknown."""
        if epoch not in self._where:
            return math.nan
        here = slice(*self._where[epoch])
        return float(np.dot(self._value[here], self._frequency[here]))


@lru_cache(maxsize=1 << 16)
def _label(label: str) -> str:
    """A label as the page shows it; every epoch has the same ones."""
    return clean(label, LABEL_LIMIT)


def index(root: Path, problems: list[str]) -> dict[Key, dict[int, Slot]]:
    """Find the newest revision of every (collection, digest, attribute, epoch) below `root`."""
    slots_of: dict[Key, dict[int, Slot]] = {}
    for path in sorted(root.rglob("*.parquet")):
        if path.name.startswith((".", "_")):
            continue
        try:
            stored = published_table(path)
            names = [*_KEYS, *(["attribute"] if "attribute" in stored.schema_arrow.names else [])]
            keys = stored.read(columns=names, use_threads=False).select(names)
        except (OSError, ValueError, KeyError) as error:
            problems.append(f"{clean(path.name)} could not be read ({type(error).__name__}).")
            continue
        for row in keys.group_by(names).aggregate([]).to_pylist():
            key = (
                clean(str(row["collection"])),
                clean(str(row["digest"])),
                clean(str(row.get("attribute") or "")),
            )
            slots = slots_of.setdefault(key, {})
            slot = slots.setdefault(row["epoch"], Slot(row["revision"], []))
            if row["revision"] > slot.revision:
                slot.revision, slot.paths = row["revision"], [path]
            elif row["revision"] == slot.revision:
                slot.paths.append(path)
    return slots_of


def read(
    slot: Slot, key: Key, epoch: int, values: Iterable[int] | None, truth: TruthOf, *, distribution: bool
) -> Snapshot:
    """The estimates of one epoch.

    Args:
        slot: where its newest revision is.
        key: (collection, digest, attribute).
        epoch: number of the epoch.
        values: codes of a few values; None for all.
        truth: gives true frequencies for an epoch and codes of values, NaN where nobody knows; of a
            distribution the shares up to these values.
        distribution: whether the epoch has shares up to values, and no estimates of single ones.
    """
    return _snapshot(_rows(slot, key, epoch, values), epoch, truth, distribution=distribution)


def read_slices(
    slot: Slot, key: Key, epoch: int, values: Iterable[int], *, single: bool, distribution: bool
) -> dict[Slice, Snapshot]:
    """The estimates of a few values in one epoch, without the truth: of all slices, or of single labels."""
    table = _rows(slot, key, epoch, values)
    columns = [name for name in table.column_names if name.startswith(COLUMN)]
    found: dict[Slice, Snapshot] = {}
    for row in table.group_by(columns, use_threads=False).aggregate([]).to_pylist():
        slice_ = tuple((name.removeprefix(COLUMN), label) for name, label in row.items() if label is not None)
        if len(slice_) == 1 or (slice_ and not single):
            rules = (pc.field(x) == row[x] if row[x] is not None else pc.field(x).is_null() for x in columns)
            mine = table.filter(reduce(and_, rules))
            found[slice_] = _snapshot(
                mine, epoch, lambda _, codes: np.full(len(codes), np.nan), distribution=distribution
            )
    return found


def _rows(slot: Slot, key: Key, epoch: int, values: Iterable[int] | None) -> Any:
    """The rows of one epoch that the page needs."""
    wanted = (
        (pc.field("digest") == key[1])
        & (pc.field("epoch") == epoch)
        & (pc.field("revision") == slot.revision)
    )
    if values is not None:
        wanted = wanted & pc.field("value").isin(list(values))
    tables = []
    for path in slot.paths:
        file = published_table(path)
        shown = [name for name in file.schema_arrow.names if name not in _NOT_SHOWN]
        mine = wanted & (pc.field("attribute") == key[2]) if "attribute" in shown else wanted
        for group in range(file.num_row_groups):  # a file of many slices is large
            tables.append(file.read_row_group(group, shown, use_threads=False).filter(mine))
    return pyarrow.concat_tables(tables)


def _snapshot(table: Any, epoch: int, truth: TruthOf, *, distribution: bool) -> Snapshot:
    if (
        np.diff(table["value"].to_numpy()) < 0
    ).any():  # a run writes rows in their order, and sorting copies them
        table = table.sort_by("value")
    names = set(table.column_names)
    rows = table.num_rows

    def floats(name: str) -> Floats:
        if name not in names:
            return np.full(rows, np.nan)
        column = table[name].cast(pyarrow.float64())
        return np.asarray(column.to_numpy(), dtype=np.float64)

    def ints(name: str) -> Ints:
        if name not in names:
            return np.zeros(rows, dtype=np.int64)
        return np.asarray(table[name].fill_null(0).to_numpy(), dtype=np.int64)

    def first(name: str, default: Any) -> Any:
        return table[name][0].as_py() if name in names and rows else default

    codes = ints("value")
    labels = table["label"].to_pylist() if "label" in names else [None] * rows
    named = [_SHARES.get(name, name) for name in _FLOATS] if distribution else _FLOATS
    estimate, std_error, floor, low, high, consistent = map(floats, named)
    if distribution:
        std_error = (high - low) / (2 * normal_limit(CONFIDENCE))
    reports = ints("n")
    return Snapshot(
        epoch=epoch,
        start=first("epoch_start", None),
        n=int(reports.max()) if rows else 0,
        status=clean(str(first("status", "ok"))),
        pane=clean(str(first("pane", ""))),
        method=clean(str(first("method", ""))),
        values=codes,
        reports=reports,
        labels=tuple(
            _label(str(label)) if label else f"value {code}"
            for label, code in zip(labels, codes.tolist(), strict=True)
        ),
        support=ints("support"),
        estimate=estimate,
        std_error=std_error,
        floor=floor,
        low=low,
        high=high,
        consistent=consistent,
        truth=truth(epoch, codes),
    )
