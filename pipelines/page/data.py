"""What a run wrote, read back: run.json, estimates/*.parquet and, in simulations, truth.parquet.

Files are read one epoch at a time, so memory is a few arrays of the domain's size whatever the
number of epochs. Nothing here knows about HTML.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.accounting import EARLY
from ldpbeam.pipelines.page.account import Books, books
from ldpbeam.pipelines.page.text import LABEL_LIMIT, clean, clean_tree, count, integer
from ldpbeam.protocols.contract import Result

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_Key = tuple[str, str, str]
"""Collection, digest, attribute (empty where there is only one)."""

_KEYS = ["collection", "digest", "epoch", "revision"]
_OWN = ("domain_size", "protocol", "result", "support", "lasting")
"""What the record says of each attribute instead of the collection."""
_FLOATS = ["estimate", "std_error", "ci_low", "ci_high", "consistent"]


@dataclass(frozen=True)
class Snapshot:
    """The estimates of one collection and epoch, sorted by value; missing numbers are NaN."""

    epoch: int
    start: datetime | None
    revision: int
    n: int
    status: str
    pane: str
    method: str
    values: Ints
    labels: tuple[str, ...]
    support: Ints
    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats
    consistent: Floats
    truth: Floats

    @property
    def usable(self) -> bool:
        """Whether anything was estimated at all."""
        return bool(np.isfinite(self.estimate).any())

    @property
    def provisional(self) -> bool:
        """Whether the epoch had not ended when this was published."""
        return self.pane == EARLY


@dataclass(frozen=True)
class EpochSummary:
    """One epoch in single numbers; None where there is nothing to compute it from."""

    epoch: int
    start: datetime | None
    revision: int
    n: int
    usable: bool
    provisional: bool
    status: str
    std_error: float | None
    variance: float | None
    mse_raw: float | None
    mse_consistent: float | None
    mse_uniform: float | None
    coverage: float | None
    spread: float | None
    """Unbiased estimate of the error of answering 1/k, from the reports alone."""


@dataclass(frozen=True)
class CollectionData:
    """One collection of a run, or one attribute of it: configuration, overview by epoch, last epoch."""

    name: str
    digest: str
    attribute: str
    config: Mapping[str, Any]
    size: int
    mean: bool
    epochs: tuple[EpochSummary, ...]
    last: Snapshot | None
    ranked: tuple[int, ...]
    """Values in falling order of significance over all epochs."""
    standing: Mapping[int, tuple[float, float, float]]
    """For the first of them: mean z against 1/k, z of the change, the change itself."""
    alone: bool
    """Whether the run has no other collection (other attributes of it do not count)."""
    slots: Mapping[int, _Slot] = field(repr=False)
    truth: Truth | None = field(repr=False)

    @property
    def title(self) -> str:
        """The collection, and which of its attributes."""
        return f"{self.name} · {self.attribute}" if self.attribute else self.name

    @property
    def reach(self) -> str:
        """Where the values of a mean lie: `0 … 100`."""
        return f"0 … {count(max(self.size - 1, 0))}"

    @property
    def uniform(self) -> float | None:
        """1/k, or None where there is no such thing (means, unknown domain)."""
        return 1.0 / self.size if self.size > 1 and not self.mean else None

    def read(self, epoch: int, values: Iterable[int] | None = None) -> Snapshot:
        """The snapshot of one epoch, of all values or of a few."""
        return _read(self.slots[epoch], self, epoch, values)


@dataclass(frozen=True)
class Run:
    """Everything that the page is made from."""

    record: Mapping[str, Any]
    books: Books
    collections: tuple[CollectionData, ...]
    problems: tuple[str, ...]
    simulated: bool


@dataclass
class _Slot:
    """Where the newest revision of one (collection, digest, epoch) is."""

    revision: int
    paths: list[Path]


class Truth:
    """True frequencies of a simulation, by epoch; a value that nobody held has no row."""

    def __init__(self, path: Path, attribute: str = "") -> None:
        import pyarrow.compute as pc
        import pyarrow.dataset

        rows = pyarrow.dataset.dataset(path, format="parquet")
        several = "attribute" in rows.schema.names
        table = rows.to_table(
            columns=["epoch", "value", "frequency"],
            filter=pc.field("attribute") == attribute if several else None,
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

    def mean(self, epoch: int) -> float:
        """The mean of the values that devices held; NaN where the epoch is unknown."""
        if epoch not in self._where:
            return math.nan
        here = slice(*self._where[epoch])
        return float(np.dot(self._value[here], self._frequency[here]))


def load(output_dir: Path, truth: Path | None = None) -> Run:
    """Read the output directory of a run.

    A file that cannot be read, or is missing, becomes a line in `problems`; the rest is shown.
    """
    problems: list[str] = []
    record = _record(output_dir / "run.json", problems)
    index = _index(output_dir / "estimates", problems)
    configs = [
        one
        for item in record.get("collections") or ()
        if isinstance(item, Mapping)
        for one in _by_attribute(item)
    ]
    keys = [_key(item) for item in configs]
    problems += [
        f"run.json does not say whether {key[0]} has frequencies or a mean (an older version wrote it); "
        "they are shown as frequencies."
        for key, config in zip(keys, configs, strict=True)
        if "result" not in config
    ]
    for key in index:
        if key not in keys:
            keys.append(key)
            configs.append({"name": key[0], "digest": key[1], "attribute": key[2]})
            problems.append(f"{key[0]} ({key[1]}) has estimates but is not in run.json.")
    truths = _truths(truth, {key[2] for key in keys}, problems)
    single = len({key[:2] for key in keys}) == 1
    collections = []
    for key, config in zip(keys, configs, strict=True):
        exact = truths.get(key[2])
        fits = exact is not None and (single or exact.size == integer(config.get("domain_size")))
        collections.append(_collection(key, config, index.get(key, {}), exact if fits else None, single))
    return Run(
        record=record,
        books=books(record.get("accounting"), unfinished="stream" in record),
        collections=tuple(collections),
        problems=tuple(problems),
        simulated=bool(truths),
    )


def _key(config: Mapping[str, Any]) -> _Key:
    return str(config.get("name")), str(config.get("digest")), str(config.get("attribute") or "")


def _by_attribute(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """One configuration per attribute: the collection's, with what is particular to the attribute."""
    attributes = [a for a in config.get("attributes") or () if isinstance(a, Mapping)]
    if not attributes:
        return [config]
    found: list[Mapping[str, Any]] = []
    for one in attributes:
        own = {name: one.get(name) for name in _OWN if name in one}
        protocol = " · ".join(str(x) for x in (config.get("allocation"), one.get("protocol")) if x)
        found.append({**config, **own, "protocol": protocol, "attribute": str(one.get("name"))})
    return found


def _record(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        record = clean_tree(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        problems.append(f"run.json could not be read ({type(error).__name__}).")
        return {}
    if not isinstance(record, dict) or record.get("schema") != "ldpbeam.run/1":
        problems.append("run.json is not of schema ldpbeam.run/1; what can be read is shown.")
    return record if isinstance(record, dict) else {}


def _truths(path: Path | None, attributes: set[str], problems: list[str]) -> dict[str, Truth]:
    """The truth of each attribute; nothing where there is none."""
    if path is None:
        return {}
    try:
        return {attribute: Truth(path, attribute) for attribute in attributes}
    except (OSError, ValueError, KeyError) as error:
        problems.append(f"The truth file could not be read ({type(error).__name__}).")
        return {}


def _index(root: Path, problems: list[str]) -> dict[_Key, dict[int, _Slot]]:
    """Find the newest revision of every (collection, digest, attribute, epoch) below `root`."""
    import pyarrow.dataset

    index: dict[_Key, dict[int, _Slot]] = {}
    for path in sorted(root.rglob("*.parquet")):
        if path.name.startswith((".", "_")):
            continue
        try:
            rows = pyarrow.dataset.dataset(path, format="parquet")
            names = [*_KEYS, *(["attribute"] if "attribute" in rows.schema.names else [])]
            keys = rows.to_table(columns=names)
        except (OSError, ValueError, KeyError) as error:
            problems.append(f"{clean(path.name)} could not be read ({type(error).__name__}).")
            continue
        for row in keys.group_by(names).aggregate([]).to_pylist():
            key = (
                clean(str(row["collection"])),
                clean(str(row["digest"])),
                clean(str(row.get("attribute") or "")),
            )
            slots = index.setdefault(key, {})
            slot = slots.setdefault(row["epoch"], _Slot(row["revision"], []))
            if row["revision"] > slot.revision:
                slot.revision, slot.paths = row["revision"], [path]
            elif row["revision"] == slot.revision:
                slot.paths.append(path)
    return index


def _read(slot: _Slot, owner: CollectionData, epoch: int, values: Iterable[int] | None) -> Snapshot:
    import pyarrow
    import pyarrow.compute as pc
    import pyarrow.dataset

    wanted = (
        (pc.field("digest") == owner.digest)
        & (pc.field("epoch") == epoch)
        & (pc.field("revision") == slot.revision)
    )
    if values is not None:
        wanted = wanted & pc.field("value").isin(list(values))
    tables = []
    for path in slot.paths:
        stored = pyarrow.dataset.dataset(path, format="parquet")
        several = "attribute" in stored.schema.names
        mine = wanted & (pc.field("attribute") == owner.attribute) if several else wanted
        tables.append(stored.to_table(filter=mine))
    table = pyarrow.concat_tables(tables).sort_by("value")
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
    estimate, std_error, low, high, consistent = (floats(name) for name in _FLOATS)
    reports = ints("n")
    return Snapshot(
        epoch=epoch,
        start=first("epoch_start", None),
        revision=slot.revision,
        n=int(reports.max()) if rows else 0,
        status=clean(str(first("status", "ok"))),
        pane=clean(str(first("pane", ""))),
        method=clean(str(first("method", ""))),
        values=codes,
        labels=tuple(
            clean(str(label), LABEL_LIMIT) if label else f"value {code}"
            for label, code in zip(labels, codes.tolist(), strict=True)
        ),
        support=ints("support"),
        estimate=estimate,
        std_error=std_error,
        low=low,
        high=high,
        consistent=consistent,
        truth=_true(owner, epoch, codes),
    )


def _true(owner: CollectionData, epoch: int, values: Ints) -> Floats:
    """The true frequencies of `values`, or the true mean; NaN where nobody knows."""
    if owner.truth is None:
        return np.full(len(values), np.nan)
    if owner.mean:
        return np.full(len(values), owner.truth.mean(epoch))
    return owner.truth.at(epoch, values)


def _collection(
    key: _Key, config: Mapping[str, Any], slots: dict[int, _Slot], truth: Truth | None, alone: bool
) -> CollectionData:
    """Read all epochs of one collection once, keeping only sums and the last usable epoch."""
    from ldpbeam.pipelines.page.significance import Noise, Standing

    data = CollectionData(
        name=key[0],
        digest=key[1],
        attribute=key[2],
        config=config,
        size=integer(config.get("domain_size")),
        mean=config.get("result") == Result.MEAN.value,
        epochs=(),
        last=None,
        ranked=(),
        standing={},
        alone=alone,
        slots=slots,
        truth=truth,
    )
    order = sorted(slots)
    standing = Standing(halves=len(order) // 2, noise=Noise(config))
    summaries: list[EpochSummary] = []
    last: Snapshot | None = None
    for place, epoch in enumerate(order):
        snapshot = data.read(epoch)
        if not data.size and len(snapshot.values):
            data = _with(data, size=len(snapshot.values))
        summaries.append(_summary(snapshot, data.uniform))
        standing.add(place, snapshot, data.uniform or 0.0)
        if snapshot.usable or last is None or not last.usable:
            last = snapshot
    ranked = standing.ranked(limit=6)
    return _with(
        data,
        epochs=tuple(summaries),
        last=last,
        ranked=tuple(ranked),
        standing={value: standing.of(value) for value in ranked},
    )


def _with(data: CollectionData, **changes: Any) -> CollectionData:
    from dataclasses import replace

    return replace(data, **changes)


def _summary(snapshot: Snapshot, uniform: float | None) -> EpochSummary:
    truth = snapshot.truth
    inside = (snapshot.low <= truth) & (truth <= snapshot.high)
    known = np.isfinite(snapshot.low) & np.isfinite(truth)
    variance = _mean(snapshot.std_error**2)
    spread = None
    if uniform is not None and variance is not None:
        above = _mean((snapshot.estimate - uniform) ** 2)
        spread = None if above is None else above - variance
    return EpochSummary(
        epoch=snapshot.epoch,
        start=snapshot.start,
        revision=snapshot.revision,
        n=snapshot.n,
        usable=snapshot.usable,
        provisional=snapshot.provisional,
        status=snapshot.status,
        std_error=None if variance is None else math.sqrt(variance),
        variance=variance,
        mse_raw=_mean((snapshot.estimate - truth) ** 2),
        mse_consistent=_mean((snapshot.consistent - truth) ** 2) if snapshot.usable else None,
        mse_uniform=None if uniform is None else _mean((uniform - truth) ** 2),
        coverage=float(inside[known].mean()) if known.any() else None,
        spread=spread,
    )


def _mean(values: Floats) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
