"""Columns of CSV files: as dictionary-encoded text, and as the values of a domain that texts stand for."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from ldpbeam.collection.domain import Domain
from ldpbeam.simulators.population.contract import ABSENT, INDEX, Request

_SHOWN = 20
"""Most column names an error lists."""


@dataclass(frozen=True)
class TextColumn:
    """One column of a table as text.

    Attributes:
        name: the column's name.
        texts: its distinct texts, in order of first appearance.
        codes: shape (rows,), int32; ``texts[codes[row]]`` is the cell as it stands in the file.
    """

    name: str
    texts: tuple[str, ...]
    codes: NDArray[np.int32]


def column_names(path: Path) -> list[str]:
    """Column names of a CSV file, in file order: its first row, UTF-8, decompressed if .gz.

    Raises:
        ValueError: the file does not exist, cannot be read, or is empty.
    """
    with _rows(path) as rows:
        names: list[str] | None = next(rows, None)
    if not names:
        raise ValueError(f"{path} is empty; give a CSV file whose first row names the columns")
    return names


def read_columns(path: Path, names: Sequence[str]) -> list[TextColumn]:
    """The named columns, in the order asked for.

    Empty cells are the empty text; blank lines are skipped.

    Args:
        path: a CSV file with a header row; quoting as in RFC 4180, UTF-8.
        names: columns to read, without repeats.

    Returns:
        One column per name, all with the same, positive number of rows.

    Raises:
        ValueError: the file or a column does not exist (with the columns there are and the closest name), a
            column name stands twice in the header, the file is not well formed, or it has no rows.
    """
    _check(path, names, column_names(path))
    text = pa.dictionary(pa.int32(), pa.string())
    options = arrow_csv.ConvertOptions(
        include_columns=list(names), column_types=dict.fromkeys(names, text), strings_can_be_null=False
    )
    try:
        table = arrow_csv.read_csv(str(path), convert_options=options)
    except pa.ArrowInvalid as error:
        # After the second colon Arrow quotes the offending row, which is somebody's data.
        why = ":".join(str(error).split(":")[:2])
        raise ValueError(f"{path} is not a well-formed CSV file ({why}); repair the file") from None
    if not table.num_rows:
        raise ValueError(f"{path} has a header but no rows, so no devices; give a file with data")
    return [_encoded(name, table.column(name)) for name in names]


def line_of(path: Path, row: int) -> int:
    """The line (from 1) on which a data row (from 0) ends, for messages. Reads the file again."""
    with _rows(path) as rows:
        numbers: Iterator[int] = (rows.line_num for cells in rows if cells)
        next(numbers)
        for number in numbers:
            if row == 0:
                return number
            row -= 1
    raise ValueError(f"{path} ended {row + 1} rows early; it changed while it was being read, try again")


def in_header(name: str, there: Sequence[str]) -> str:
    """The column that a name means: itself, or the one with or without :data:`INDEX` before it."""
    other = name.removeprefix(INDEX) if name.startswith(INDEX) else INDEX + name
    return other if name not in there and other in there else name


def encode(
    request: Request, path: Path, columns: Sequence[TextColumn], *, indices: bool = False
) -> tuple[list[NDArray[np.int32]], tuple[str, ...] | None]:
    """Columns of texts as columns of values (-1 for empty cells), and the values' labels.

    Where the columns hold ``indices``, or one of their names begins with :data:`INDEX`, the texts are those.
    """
    domain = request.domain
    labels = domain.labels
    if indices or any(column.name.startswith(INDEX) for column in columns):
        domain = Domain(domain.size)
    plain = domain.labels is None and domain.maximum is None
    if plain and labels is None and not indices and not _of_size(domain, columns):
        distinct = _sorted({text for column in columns for text in column.texts} - {""})
        if len(distinct) > domain.size:
            where = columns[0].name
            if len(columns) > 1:
                where = f"{where}..{columns[-1].name}"
            raise ValueError(
                f"{path}, column {where!r}: {len(distinct)} distinct values do not fit a domain "
                f"of size {domain.size}; set the domain's size to at least {len(distinct)}, or use "
                "a range with buckets"
            )
        value_of = {text: value for value, text in enumerate(distinct)}
        labels = tuple(distinct) + ("",) * (domain.size - len(distinct))
    else:
        value_of = {}
        for column in columns:
            for text in column.texts:
                if text != "" and text not in value_of:
                    value_of[text] = _looked_up(domain, path, column, text)
    value_of[""] = ABSENT
    return [recoded(column, (value_of[text] for text in column.texts)) for column in columns], labels


def _of_size(domain: Domain, columns: Sequence[TextColumn]) -> bool:
    """Whether all texts are whole numbers of a size, so that they are the values themselves."""
    try:
        for text in {text for column in columns for text in column.texts} - {""}:
            domain.index_of_text(text)
    except ValueError:
        return False
    return True


def _looked_up(domain: Domain, path: Path, column: TextColumn, text: str) -> int:
    """The value of one text, or an error that says where the text stands."""
    try:
        return domain.index_of_text(text)
    except ValueError as error:
        line = line_of(path, first_row(column, text))
        raise ValueError(
            f"{path}, line {line}, column {column.name!r}: {text!r} is no value of the domain "
            f"({error}); correct the file or the collection's domain"
        ) from None


def recoded(column: TextColumn, values: Iterable[int]) -> NDArray[np.int32]:
    """The values of a column, given that of each distinct text in order; int32, shape (rows,)."""
    table = np.fromiter(values, dtype=np.int32, count=len(column.texts))
    recoded: NDArray[np.int32] = table[column.codes]
    return recoded


def first_row(column: TextColumn, text: str) -> int:
    """The first row that holds a text of the column."""
    return int(np.argmax(column.codes == column.texts.index(text)))


def _sorted(texts: Iterable[str]) -> list[str]:
    """Distinct texts in the order of their values: as numbers when all are, else as text."""
    texts = sorted(texts)
    try:
        numbers = {text: Decimal(text) for text in texts}
    except InvalidOperation:
        return texts
    if not all(number.is_finite() for number in numbers.values()):
        return texts
    return sorted(texts, key=numbers.__getitem__)


def _encoded(name: str, column: pa.ChunkedArray) -> TextColumn:
    """Arrow's dictionary column as ours, one dictionary for all chunks."""
    # Arrow is free to return one chunk or several; concatenating unified chunks is right for both.
    chunks = column.unify_dictionaries().chunks
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks])
    return TextColumn(name, tuple(chunks[-1].dictionary.to_pylist()), codes.astype(np.int32, copy=False))


def _check(path: Path, names: Sequence[str], there: list[str]) -> None:
    """Raise unless every name is exactly one column."""
    for name in names:
        if name not in there:
            shown = ", ".join(map(repr, there[:_SHOWN]))
            more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
            close = get_close_matches(name, there, 1, 0.5)
            hint = f"perhaps {close[0]!r} was meant" if close else "name one of them"
            raise ValueError(f"{path} has no column {name!r}; its columns are {shown}{more}; {hint}")
        if there.count(name) > 1:
            raise ValueError(
                f"{path} has {there.count(name)} columns named {name!r}, so the name is ambiguous; "
                "rename them in its header"
            )


@contextmanager
def _rows(path: Path) -> Iterator[Any]:
    """The rows of a file, by :func:`csv.reader`, which knows the number of its line."""
    try:
        with pa.input_stream(str(path)) as raw:
            yield csv.reader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}; check the path (relative to {Path.cwd()})") from None
    except (OSError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read ({error}); give a readable CSV file") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}); convert it to UTF-8") from None
