"""Results of a run as one table, and as series: the newest revision of every epoch, read from its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.errors import UsageError
from ldpbeam.over_time.series import Series

if TYPE_CHECKING:
    import pyarrow as pa

LATER_COLUMNS = {"version": "int64", "epoch_end": "timestamp[us, tz=UTC]", "std_error_floor": "double"}
"""Columns that files of earlier versions lack, and are null there."""

_ORDER = ("collection", "version", "digest", "attribute", "epoch", "value")
_NEEDED = {"digest", "epoch", "revision", "value", "n", "estimate", "std_error"}


class Key(NamedTuple):
    """Of which attribute a history is."""

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
        series: the estimates.
    """

    key: Key
    values: Ints
    labels: tuple[str, ...]
    starts: Ints
    ends: Ints
    provisional: np.ndarray[Any, np.dtype[np.bool_]]
    series: Series


def read_results(folder: Path) -> pa.Table:
    """The newest revision of every epoch, a row per attribute and value; see :func:`ldpbeam.read`.

    Raises:
        UsageError: the folder holds no estimates, or damaged ones.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    paths = _tables(folder)
    tables = []
    for path in paths:
        try:
            table = pq.read_table(path, partitioning=None).replace_schema_metadata(None)
        except (pa.ArrowException, OSError) as error:
            raise _unusable(path, f"is cut short or damaged ({type(error).__name__})") from None
        missing = _NEEDED - set(table.column_names)
        if missing:
            raise _unusable(path, f"is not a table of estimates: it has no column {min(missing)}")
        tables.append(table)
    whole = pa.concat_tables(tables, promote_options="default")
    for name, kind in LATER_COLUMNS.items():
        if name not in whole.column_names:
            whole = whole.append_column(name, pa.nulls(whole.num_rows, _kind(kind)))
    # A folder of estimates has every revision; the newest one of an epoch replaces the others.
    newest = whole.group_by(["digest", "epoch"]).aggregate([("revision", "max")])
    whole = whole.join(newest, ["digest", "epoch"])
    whole = whole.filter(pc.equal(whole["revision"], whole["revision_max"])).drop_columns(["revision_max"])
    order = [(name, "ascending") for name in _ORDER if name in whole.column_names]
    return whole.sort_by(order).combine_chunks()


def _kind(name: str) -> Any:
    import pyarrow as pa

    return pa.timestamp("us", "UTC") if name.startswith("timestamp") else pa.type_for_alias(name)


def _tables(folder: Path) -> list[Path]:
    """Of ``latest/``, which holds each epoch once; else of ``estimates/``, else of the folder itself."""
    if not folder.is_dir():
        raise _unusable(folder, "is no folder" if folder.exists() else "does not exist")
    for place in (folder / "latest", folder / "estimates", folder):
        found = sorted(path for path in place.glob("*.parquet") if not path.name.startswith("."))
        if found:
            return found
    raise _unusable(folder, "holds no estimates")


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        "E-USAGE-RESULTS", f"{path} {why}", remedy="Give the directory that was --output of a run."
    )


def histories(table: pa.Table) -> Iterator[History]:
    """Every attribute of every collection in a table of :func:`read_results`, in the order of their keys."""
    columns = {name: table[name] for name in table.column_names}
    rows = table.num_rows
    names = [columns[name].to_pylist() if name in columns else [""] * rows for name in Key._fields]
    groups: dict[Key, list[int]] = {}
    for place, key in enumerate(zip(*names, strict=True)):
        groups.setdefault(Key(key[0], key[1] or 0, key[2], key[3] or ""), []).append(place)
    numbers = {name: _numbers(columns[name]) for name in ("estimate", "std_error")}
    whole = {name: _integers(columns[name]) for name in ("epoch", "value", "n")}
    starts, ends = (_instants(columns.get(name), rows) for name in ("epoch_start", "epoch_end"))
    labels = columns["label"].to_pylist() if "label" in columns else [None] * rows
    early = [pane == "early" for pane in columns["pane"].to_pylist()] if "pane" in columns else [False] * rows
    for key in sorted(groups):
        mine = np.array(groups[key])
        epochs, row = np.unique(whole["epoch"][mine], return_inverse=True)
        values, at = np.unique(whole["value"][mine], return_inverse=True)
        shape = (len(epochs), len(values))
        estimate, error, n = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, np.int64)
        estimate[row, at], error[row, at] = numbers["estimate"][mine], numbers["std_error"][mine]
        n[row, at] = whole["n"][mine]
        first = np.zeros(len(epochs), np.int64)
        first[row] = mine
        named = dict(zip(at.tolist(), mine.tolist(), strict=True))
        yield History(
            key,
            values,
            tuple(
                str(code if labels[named[column]] is None else labels[named[column]])
                for column, code in enumerate(values.tolist())
            ),
            starts[first],
            ends[first],
            np.array([early[i] for i in first.tolist()], np.bool_),
            Series(epochs, n, estimate, error),
        )


def _numbers(column: Any) -> Floats:
    return np.asarray(column.to_numpy(), np.float64)


def _integers(column: Any) -> Ints:
    return np.asarray(column.fill_null(0).to_numpy(), np.int64)


def _instants(column: Any, rows: int) -> Ints:
    """Microseconds since 1970; −1 where nothing is known."""
    if column is None:
        return np.full(rows, -1, np.int64)
    import pyarrow as pa

    return np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy(), np.int64)
