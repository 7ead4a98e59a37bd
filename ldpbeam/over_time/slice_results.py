"""The results of one slice, read as those of the whole are: its rows, without the columns of slices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbeam.collection.slices import COLUMN, Slices, slice_text
from ldpbeam.errors import UsageError, option_error
from ldpbeam.table_file import published_table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SLICES = "slices"
"""The folder of the newest estimates by slice."""

_Chosen = Mapping[str, str]
"""Labels by dimension; none for the whole."""


def table_folder(folder: Path, name: str, slice_: _Chosen) -> Path:
    """Where results have other tables than estimates: ``counts/``, or of a slice ``slice_counts/``."""
    return folder / (f"slice_{name}" if slice_ else name)


def slice_files(folder: Path) -> list[Path]:
    """The files of ``slices/``."""
    paths = sorted(path for path in (folder / SLICES).glob("*.parquet") if path.name[0] != ".")
    if not paths:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"{folder} holds no results by slice",
            remedy="Give the output of a run whose collection has slices, or ask about all devices.",
        )
    return paths


def opened(path: Path, slice_: _Chosen) -> pq.ParquetFile:
    """A published table, or the rows of a slice in it as a table by themselves."""
    file = published_table(path)
    if not slice_:
        return file
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(_rows(file, slice_), sink, compression="none")
    return pq.ParquetFile(sink.getvalue())


def labels_in(folder: Path, dimension: str, others: _Chosen) -> tuple[str, ...]:
    """The labels of a dimension, each of which has results together with those of other dimensions."""
    if dimension in others:
        raise option_error(
            f"--by-slice is for another dimension than {dimension}, which --slice names",
            "Leave one of them out.",
        )
    known = [one for slices in _slices_in(folder) for one in slices.dimensions]
    labels = tuple(dict.fromkeys(label for one in known if one.name == dimension for label in one.labels))
    if not labels:
        raise option_error(
            f"the results have no dimension of slices called {dimension!r}",
            f"Name one of: {', '.join(dict.fromkeys(one.name for one in known))}.",
            folder,
        )
    require_slice(folder, {**others, dimension: labels[0]})
    return labels


def require_slice(folder: Path, slice_: _Chosen) -> None:
    """Raise UsageError for a slice that results do not have, with the labels that there are."""
    wrong: ValueError | None = None
    for slices in _slices_in(folder):
        try:
            slices.chosen(slice_)
        except ValueError as error:
            wrong = wrong or error
        else:
            return
    raise option_error(
        f"there are no results of {slice_text(tuple(slice_.items()))}", f"Choose another: {wrong}.", folder
    )


def damaged(path: Path, error: Exception) -> UsageError:
    """The error about a table that cannot be read."""
    return UsageError(
        "E-USAGE-RESULTS",
        f"{path} is cut short or damaged ({type(error).__name__})",
        remedy="Restore it from a copy, or run again.",
    )


def _slices_in(folder: Path) -> Iterable[Slices]:
    import pyarrow as pa

    found: dict[Slices, None] = {}
    for path in slice_files(folder):
        try:
            file = published_table(path)
            table = file.read(_columns(file))
        except (pa.ArrowException, OSError) as error:
            raise damaged(path, error) from None
        labels = {name.removeprefix(COLUMN): table[name].unique().to_pylist() for name in table.column_names}
        found[Slices.of({name: filter(None, some) for name, some in labels.items()})] = None
    return found


def _columns(file: pq.ParquetFile) -> list[str]:
    return [name for name in file.schema_arrow.names if name.startswith(COLUMN)]


def _rows(file: pq.ParquetFile, slice_: _Chosen) -> pa.Table:
    """The rows of a slice; none where the table has no such labels."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns, wanted = _columns(file), {COLUMN + name: label for name, label in slice_.items()}
    found = [file.schema_arrow.empty_table()]
    if wanted.keys() <= set(columns):
        rules = (pc.field(x) == wanted[x] if x in wanted else pc.field(x).is_null() for x in columns)
        rule = reduce(and_, rules)
        # One group after the other: a file of many slices is large.
        found += [file.read_row_group(group).filter(rule) for group in range(file.num_row_groups)]
    return pa.concat_tables(found).drop_columns(columns)
