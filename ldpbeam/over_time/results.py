"""Results of a run as one table, and as series: the newest revision of every epoch, read from its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.errors import UsageError
from ldpbeam.over_time.series import Series, SeriesRow, series_of
from ldpbeam.over_time.slice_results import damaged, opened, require_slice, slice_files

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1 << 16
"""So many are read at once."""
_NEEDED = {"digest", "epoch", "revision", "value", "n", "estimate", "std_error"}


class HistoryKey(NamedTuple):
    collection: str
    version: int
    digest: str
    attribute: str


@dataclass(frozen=True, eq=False)
class History:
    """One attribute of one collection over its epochs.

    Attributes:
        key: which.
        values: int64 (k,), codes in rising order, the columns of the series.
        labels: of the values.
        starts, ends: instants in microseconds since 1970, int64 (T,); an end is −1 where a file lacks it.
        provisional: bool (T,), whether an epoch had not ended when its result was published.
        series: the estimates, which a temporary file holds where they are very many.
    """

    key: HistoryKey
    values: Ints
    labels: tuple[str, ...]
    starts: Ints
    ends: Ints
    provisional: np.ndarray[Any, np.dtype[np.bool_]]
    series: Series


class Part(NamedTuple):
    """The newest result of one attribute in one epoch, and the files that have it, mostly one."""

    key: HistoryKey
    epoch: int
    revision: int
    paths: tuple[Path, ...]
    usable: bool | None
    """Whether it has an estimate, as far as the file says so without being read."""


@dataclass(frozen=True)
class ResultsFolder:
    """What a folder holds, without the numbers: they are read part by part, since a domain can be large."""

    parts: tuple[Part, ...]
    several: frozenset[Path]
    schema: pa.Schema
    slice_: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, slice_: Mapping[str, str] | None = None) -> ResultsFolder:
        """Look into every file."""
        import pyarrow as pa

        parts: dict[tuple[HistoryKey, int], Part] = {}
        newest: dict[tuple[str, int], int] = {}
        schemas, several, chosen = [], set(), dict(slice_ or {})
        _require_folder(folder)
        for path in slice_files(folder) if chosen else _tables(folder):
            schema, held = _look_into(path, chosen)
            schemas.append(schema)
            if len(held) > 1:
                several.add(path)
            for part in held:
                epoch = part.key.digest, part.epoch
                newest[epoch] = max(part.revision, newest.get(epoch, part.revision))
                if part.revision == newest[epoch]:
                    before = parts.get((part.key, part.epoch))
                    together = before is not None and before.revision == part.revision
                    paths = (*before.paths, path) if before is not None and together else (path,)
                    usable = None if together else part.usable
                    parts[part.key, part.epoch] = part._replace(paths=paths, usable=usable)
        if not parts and chosen:
            require_slice(folder, chosen)
        whole = pa.schema([field.with_nullable(True) for field in pa.unify_schemas(schemas)])
        # An attribute that the newest revision has no more is not in its file.
        newest_parts = [p for p in parts.values() if p.revision == newest[p.key.digest, p.epoch]]
        return cls(tuple(sorted(newest_parts)), frozenset(several), whole, chosen)

    def tables(self, parts: Iterable[Part] | None = None) -> Iterator[pa.Table]:
        """The rows of parts, by default of all, in their order and that of values, some thousands at a
        time."""
        import pyarrow as pa

        if not self.parts:  # every epoch of strings may have found none
            yield self.schema.empty_table()
        for part in self.parts if parts is None else parts:
            for table in _rows_of(part, not self.several.isdisjoint(part.paths), self.slice_):
                columns = [
                    table[field.name].cast(field.type)
                    if field.name in table.column_names
                    else pa.nulls(table.num_rows, field.type)
                    for field in self.schema
                ]
                yield pa.table(columns, schema=self.schema)

    def histories(self, choice: Choice | None = None) -> Iterator[History]:
        """Every attribute of every collection, in the order of their keys."""
        by_key: dict[HistoryKey, list[Part]] = {}
        for part in self.parts:
            by_key.setdefault(part.key, []).append(part)
        for key, parts in by_key.items():
            some = parts if choice is None else choice(parts)
            yield _history(key, [(part.epoch, partial(self._whole, part)) for part in some])

    def _whole(self, part: Part) -> pa.Table:
        import pyarrow as pa

        return pa.concat_tables(self.tables([part]))


Choice = Callable[[Sequence[Part]], Sequence[Part]]
"""Which epochs of an attribute, at least one of those that there are, in their order."""


def read_results(folder: Path, slice_: Mapping[str, str] | None = None) -> pa.Table:
    """The newest revision of every epoch, a row per attribute and value; see :func:`ldpbeam.read`."""
    import pyarrow as pa

    results = ResultsFolder.of(folder, slice_)
    return pa.concat_tables(results.tables()).combine_chunks()


def published_rows(path: Path, slice_: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa

    try:
        return opened(path, slice_).read()
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from None


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise _unusable(folder, "is no folder" if folder.exists() else "does not exist")


def _tables(folder: Path) -> list[Path]:
    """Of ``latest/``, which holds each epoch once; else of ``estimates/``, else of the folder itself."""
    for place in (folder / "latest", folder / "estimates", folder):
        tables = sorted(path for path in place.glob("*.parquet") if not path.name.startswith("."))
        if tables:
            return tables
    raise _unusable(folder, "holds no estimates")


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        "E-USAGE-RESULTS", f"{path} {why}", remedy="Give the directory that was --output of a run."
    )


def _look_into(path: Path, slice_: Mapping[str, str]) -> tuple[pa.Schema, set[Part]]:
    import pyarrow as pa

    try:
        file = opened(path, slice_)
        schema = file.schema_arrow.remove_metadata()
        missing = _NEEDED - set(schema.names)
        if missing:
            raise _unusable(path, f"is not a table of estimates: it has no column {min(missing)}")
        names = [name for name in (*HistoryKey._fields, "epoch", "revision") if name in schema.names]
        # Every page of these columns is read, so that a file that is cut short shows it here.
        rows = file.read(names).group_by(names).aggregate([]).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from None
    usable = _usable(file.metadata) if len(rows) == 1 else None
    return schema, {Part(_key(row), row["epoch"], row["revision"], (path,), usable) for row in rows}


def _usable(metadata: Any) -> bool | None:
    """Whether a file has an estimate, or a distribution, by the numbers of nulls that it states."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
        for name in ("estimate", "cumulative"):
            statistics = columns[name].statistics if name in columns else None
            if name in columns and (statistics is None or not statistics.has_null_count):
                return None
            if statistics is not None and statistics.null_count < group.num_rows:
                return True
    return False


def _key(row: Mapping[str, Any]) -> HistoryKey:
    return HistoryKey(
        row.get("collection") or "", row.get("version") or 0, row["digest"], row.get("attribute") or ""
    )


def _rows_of(part: Part, among_others: bool, slice_: Mapping[str, str]) -> Iterator[pa.Table]:
    """The rows of a part in the order of values, some thousands at a time where one file is in that order."""
    import pyarrow as pa

    whole = []
    for path in part.paths:
        try:
            file = opened(path, slice_)
            alone = len(part.paths) == 1 and not among_others
            if alone and (np.diff(file.read(["value"])["value"].to_numpy()) >= 0).all():
                for batch in file.iter_batches(_ROWS):
                    yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
                return
            whole.append(_only(file.read().replace_schema_metadata(None), part))
        except (pa.ArrowException, OSError) as error:
            raise damaged(path, error) from None
    yield pa.concat_tables(whole, promote_options="default").sort_by("value")


def _only(table: pa.Table, part: Part) -> pa.Table:
    import pyarrow.compute as pc

    for name, wanted in (*part.key._asdict().items(), ("epoch", part.epoch), ("revision", part.revision)):
        if name in table.column_names:
            column = pc.fill_null(table[name], type(wanted)())
            table = table.filter(pc.equal(column, wanted))
    return table


def histories(table: pa.Table) -> Iterator[History]:
    """Every attribute of every collection in a table of :func:`read_results`, in the order of their keys."""
    names = [name for name in (*HistoryKey._fields, "epoch") if name in table.column_names]
    numbered = table.append_column("row", [np.arange(table.num_rows)])
    groups = numbered.select([*names, "row"]).group_by(names).aggregate([("row", "list")]).to_pylist()
    places: dict[HistoryKey, dict[int, list[int]]] = {}
    for group in groups:
        places.setdefault(_key(group), {})[group["epoch"]] = group["row_list"]
    for key in sorted(places):
        epochs = sorted(places[key])
        yield _history(key, [(epoch, partial(table.take, sorted(places[key][epoch]))) for epoch in epochs])


_Epochs = Sequence[tuple[int, Callable[[], "pa.Table"]]]
"""Indices, and what reads the rows of each."""


def _history(key: HistoryKey, tables: _Epochs) -> History:
    (epoch, read), *others = tables
    ready = [read()]  # the first epoch, whose values all have as a rule: it is read once
    values = np.unique(_Epoch.of(ready[0]).values)
    try:
        return _of_values(values, key, [(epoch, ready.pop), *others])
    except _OtherValuesError:  # rare: the epochs have different values, so all are looked at first
        for _, again in others:
            values = np.union1d(values, _Epoch.of(again()).values)
        return _of_values(values, key, tables)


class _OtherValuesError(Exception):
    """An epoch has values that were not expected."""


def _of_values(values: Ints, key: HistoryKey, tables: _Epochs) -> History:
    reading = _HistoryReader(values)
    epochs = np.array([epoch for epoch, _ in tables], np.int64)
    series = series_of(epochs, map(reading.row, (read() for _, read in tables)), len(values))
    return History(
        key,
        values,
        reading.labels(),
        np.array(reading.starts, np.int64),
        np.array(reading.ends, np.int64),
        np.array(reading.early, np.bool_),
        series,
    )


class _HistoryReader:
    """What is gathered while one epoch after the other is read."""

    def __init__(self, values: Ints) -> None:
        self.starts, self.ends, self.early = list[int](), list[int](), list[bool]()
        self._values = values
        self._labels: list[str | None] = [None] * len(values)
        self._last: _Epoch | None = None

    def row(self, table: pa.Table) -> SeriesRow:
        one = _Epoch.of(table)
        at = np.minimum(np.searchsorted(self._values, one.values), len(self._values) - 1)
        if not np.array_equal(self._values[at], one.values):
            raise _OtherValuesError
        if self._last is not None and not np.array_equal(one.values, self._last.values):
            self._take_labels(self._last)
        self._last = one
        self.starts.append(one.start)
        self.ends.append(one.end)
        self.early.append(one.early)
        n, estimate, error = np.zeros(len(self._values), np.int64), *np.full((2, len(self._values)), np.nan)
        n[at], estimate[at], error[at] = one.n, one.estimate, one.error
        return n, estimate, error

    def labels(self) -> tuple[str, ...]:
        """The label of each value, from the last epoch that has the value."""
        if self._last is not None:
            self._take_labels(self._last)
        named = zip(self._values.tolist(), self._labels, strict=True)
        return tuple(str(value) if label is None else label for value, label in named)

    def _take_labels(self, one: _Epoch) -> None:
        at = np.searchsorted(self._values, one.values)
        for place, label in zip(at.tolist(), one.labels.to_pylist() if one.labels else (), strict=False):
            self._labels[place] = label


class _Epoch(NamedTuple):
    """The columns of one epoch that a history is made of."""

    values: Ints
    n: Ints
    estimate: Floats
    error: Floats
    labels: Any
    start: int
    end: int
    early: bool

    @classmethod
    def of(cls, table: pa.Table) -> _Epoch:
        there = set(table.column_names)
        last = table.slice(table.num_rows - 1)
        return cls(
            _integers(table["value"]),
            _integers(table["n"]),
            _numbers(table["estimate"]),
            _numbers(table["std_error"]),
            table["label"] if "label" in there else None,
            _instant(last, "epoch_start"),
            _instant(last, "epoch_end"),
            "pane" in there and last["pane"][0].as_py() == "early",
        )


def _numbers(column: Any) -> Floats:
    return np.asarray(column.to_numpy(), np.float64)


def _integers(column: Any) -> Ints:
    return np.asarray(column.fill_null(0).to_numpy(), np.int64)


def _instant(row: pa.Table, name: str) -> int:
    """Microseconds since 1970; −1 where nothing is known."""
    if name not in row.column_names:
        return -1
    import pyarrow as pa

    micros = row[name].cast(pa.int64())[0].as_py()
    return -1 if micros is None else int(micros)
