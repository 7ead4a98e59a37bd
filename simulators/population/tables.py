"""Columns of CSV files: as dictionary-encoded text, and as the values of a domain that texts stand for."""

from __future__ import annotations

import io
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import count
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.string_domain import StringDomain
from ldpbeam.csv_rows import CsvError, CsvRows
from ldpbeam.hashing.strings import END, OTHER, Strings

from .request import ABSENT, INDEX, Request

_SHOWN = 20
"""Most column names an error lists."""


@dataclass(frozen=True)
class TextColumn:
    name: str
    texts: tuple[str, ...]
    codes: NDArray[np.int32]
    lines: NDArray[np.int64]

    def line_of(self, text: str) -> int:
        return int(self.lines[np.argmax(self.codes == self.texts.index(text))])

    def lines_with(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Lines of the rows that hold one of the texts."""
        wanted = set(texts)
        chosen = np.fromiter((text in wanted for text in self.texts), np.bool_, len(self.texts))
        return self.lines[chosen[self.codes]]


def column_names(path: Path) -> list[str]:
    """Column names of a CSV file, in file order: its first row, UTF-8, decompressed if .gz."""
    with _rows(path) as rows:
        return _named(path, rows)


def read_columns(path: Path, names: Sequence[str]) -> list[TextColumn]:
    """The named columns, in the order asked for."""
    with _rows(path) as rows:
        there = _named(path, rows)
        _check(path, names, rows)
        lines = array("q")
        codes = [array("i") for _ in names]
        numbers = [defaultdict[str, int](count().__next__) for _ in names]
        columns = [
            (there.index(name), number, code.append)
            for name, number, code in zip(names, numbers, codes, strict=True)
        ]
        for line, cells in rows:
            lines.append(line)
            for place, number, append in columns:
                append(number[cells[place]])
    if not lines:
        raise ValueError(f"{path}: there is a header but no rows, so no devices; give a file with data")
    begin = np.frombuffer(lines, np.int64)
    return [
        TextColumn(name, tuple(number), np.frombuffer(code, np.int32), begin)
        for name, number, code in zip(names, numbers, codes, strict=True)
    ]


def in_header(name: str, there: Sequence[str]) -> str:
    """The column that a name means: itself, or the one with or without :data:`INDEX` before it."""
    other = name.removeprefix(INDEX) if name.startswith(INDEX) else INDEX + name
    return other if name not in there and other in there else name


def encode(
    request: Request, path: Path, columns: Sequence[TextColumn], *, indices: bool = False
) -> tuple[list[NDArray[np.int32]], tuple[str, ...] | None]:
    """Columns of texts as columns of values (-1 for empty cells), and the values' labels."""
    domain = request.domain
    labels = domain.labels
    named = _span(columns)
    texts = {text for column in columns for text in column.texts} - {""}
    indices = indices or any(column.name.startswith(INDEX) for column in columns)
    if isinstance(domain, StringDomain):
        if indices:
            raise ValueError(f"{path}: column {named!r}: strings have no indices; name a column of texts")
        return _as_strings(request, path, columns, domain.strings)
    if indices:
        domain = Domain(domain.size)
    plain = domain.labels is None and domain.maximum is None
    if plain and labels is None and not indices and not _of_size(domain, texts):
        distinct = _sorted(texts)
        if len(distinct) > domain.size:
            raise ValueError(
                f"{path}: column {named!r}: {len(distinct)} distinct values do not fit a domain "
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
    if domain.labels is not None and domain.other is not None:
        _note_unlisted(request, path, columns, domain.labels[domain.other])
    value_of[""] = ABSENT
    return [recoded(column, (value_of[text] for text in column.texts)) for column in columns], labels


def _as_strings(
    request: Request, path: Path, columns: Sequence[TextColumn], strings: Strings
) -> tuple[list[NDArray[np.int32]], tuple[str, ...]]:
    """Columns of texts as columns of values, and these: the texts as devices write them."""
    written = {text: strings.padded(text).rstrip(END) for column in columns for text in column.texts if text}
    labels = sorted(set(written.values()))
    value_of = dict(zip(labels, range(len(labels)), strict=True))
    foreign = [text for text in written if written[text] == OTHER]
    lines = np.concatenate([column.lines_with(foreign) for column in columns])
    if lines.size:
        request.note(
            f"{path}: column {_span(columns)!r}: {counted(lines.size, 'cell')} that the domain's strings "
            f"cannot write, the first in line {lines.min()}: reported as {strings.label(OTHER)!r}"
        )
    places = {text: value_of[one] for text, one in written.items()} | {"": ABSENT}
    return [recoded(column, map(places.__getitem__, column.texts)) for column in columns], tuple(labels)


def _note_unlisted(request: Request, path: Path, columns: Sequence[TextColumn], other: str) -> None:
    texts = {text for column in columns for text in column.texts if text}
    unlisted = sorted(text for text in texts if request.domain.place_of(text) is None)
    if unlisted:
        cells = sum(column.lines_with(unlisted).size for column in columns)
        request.note(
            f"{path}: column {_span(columns)!r}: {counted(cells, 'cell')} with "
            f"{counted(len(unlisted), 'value')} that the domain does not list: taken for {other!r}"
        )


def note_absent(request: Request, path: Path, columns: Sequence[TextColumn]) -> None:
    empty = sum(column.lines_with([""]).size for column in columns)
    if empty:
        what = "row" if len(columns) == 1 else "cell"
        request.note(
            f"{path}: column {_span(columns)!r}: {counted(empty, what)} without a value: the device is "
            "absent there"
        )


def _of_size(domain: Domain, texts: Iterable[str]) -> bool:
    """Whether all texts are whole numbers of a size, so that they are the values themselves."""
    try:
        for text in texts:
            domain.index_of_text(text)
    except ValueError:
        return False
    return True


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _span(columns: Sequence[TextColumn]) -> str:
    return columns[0].name if len(columns) == 1 else f"{columns[0].name}..{columns[-1].name}"


def _looked_up(domain: Domain, path: Path, column: TextColumn, text: str) -> int:
    """The value of one text, or an error that says where the text stands."""
    try:
        return domain.index_of_text(text)
    except ValueError as error:
        raise ValueError(
            f"{path}:{column.line_of(text)}: column {column.name!r}: {text!r} is no value of the domain "
            f"({error}); correct the file or the collection's domain"
        ) from None


def recoded(column: TextColumn, values: Iterable[int]) -> NDArray[np.int32]:
    """The values of a column, given that of each distinct text in order; int32, shape (rows,)."""
    table = np.fromiter(values, dtype=np.int32, count=len(column.texts))
    recoded: NDArray[np.int32] = table[column.codes]
    return recoded


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


def _named(path: Path, rows: CsvRows) -> list[str]:
    if not rows.header:
        raise ValueError(f"{path}: the file is empty; give a CSV file whose first row names the columns")
    return rows.header


def _check(path: Path, names: Sequence[str], rows: CsvRows) -> None:
    there = rows.header
    for name in names:
        if name not in there:
            shown = ", ".join(map(repr, there[:_SHOWN]))
            more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
            raise ValueError(
                f"{path}: there is no column {name!r}; the columns are {shown}{more}, {rows.separated}; if "
                "another sign separates them, begin the file with a line such as sep=;"
            )
        if there.count(name) > 1:
            raise ValueError(
                f"{path}: {there.count(name)} columns are named {name!r}, so the name is ambiguous; "
                "rename them in the header"
            )


@contextmanager
def _rows(path: Path) -> Iterator[CsvRows]:
    """The rows of a file; whatever is wrong with it becomes a ValueError that begins with the place."""
    try:
        yield CsvRows(lambda: _open(path))
    except FileNotFoundError:
        raise ValueError(
            f"{path}: there is no such file; check the path (relative to {Path.cwd()})"
        ) from None
    except CsvError as error:
        raise ValueError(f"{path}:{error.line}: {error.why}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: this is not UTF-8 text; convert the file to UTF-8") from None
    except OSError as error:
        why = " ".join(str(error.strerror or error).split())
        raise ValueError(f"{path}: the file cannot be read ({why}); give a readable CSV file") from None


def _open(path: Path) -> IO[str]:
    """A file as text, decompressed by its name's end; a byte-order mark is no part of it."""
    return io.TextIOWrapper(pa.input_stream(str(path)), encoding="utf-8-sig", newline="")
