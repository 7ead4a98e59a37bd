"""Rows of CSV files (RFC 4180) with the line on which each begins; Python's csv module reads them, strictly.

A cell may hold line breaks, separators and doubled quotes when it is quoted, at any size. The separator is
that of the header: a comma, or a semicolon or a tab where the header has no other separator, or what a first
line such as ``sep=;`` says, as spreadsheets write it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO

COMMA = ","
_NAMES = {COMMA: "commas", ";": "semicolons", "\t": "tabs"}
_LONGEST_CELL = (1 << 31) - 1  # characters; the default of the csv module, 131,072, is below sound files
_OPEN = (
    "in the row that begins here a quote is not closed, or followed by more text; "
    "close it before the separator, and double every quote inside the cell"
)
_SEPARATOR_LINE = re.compile(r'"?sep=([^"\r\n])"?[\r\n]*', re.IGNORECASE)


class CsvError(ValueError):
    """A text that is not well-formed CSV."""

    def __init__(self, line: int, why: str) -> None:
        self.line = line
        self.why = why
        super().__init__(f"line {line}: {why}")


class CsvRows:
    """The rows below the header of a CSV text."""

    def __init__(self, open_text: Callable[[], IO[str]]) -> None:
        self._open = open_text
        self._skipped = 0
        with open_text() as text:
            declared = _SEPARATOR_LINE.fullmatch(next(iter(text), ""))
        if declared:
            self._skipped = 1
            self.separator = declared[1]
        else:
            self.separator = self._separator()
        self.header = next((cells for _, cells in self._rows()), [])

    @property
    def separated(self) -> str:
        """How the cells are separated, for messages: ``separated by semicolons``."""
        return f"separated by {_NAMES.get(self.separator, repr(self.separator))}"

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        """The rows in order: the line on which each begins, and its cells."""
        width = len(self.header)
        for line, cells in islice(self._rows(), 1, None):
            if len(cells) != width:
                raise CsvError(line, self._ragged(len(cells), width))
            yield line, cells

    def _ragged(self, count: int, width: int) -> str:
        commas = "" if self.separator == COMMA else f" ({self.separated}, as the header is)"
        cells = "1 cell" if count == 1 else f"{count} cells"
        columns = "1 column" if width == 1 else f"{width} columns"
        return (
            f"the row has {cells} and the header has {columns}{commas}; correct the row, and quote cells "
            "that hold separators"
        )

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """All rows with cells, the header too."""
        before = csv.field_size_limit(_LONGEST_CELL)
        try:
            with self._open() as text:
                for _ in range(self._skipped):
                    next(text)
                reader = csv.reader(text, delimiter=self.separator, strict=True)
                skipped = last = self._skipped
                for cells in reader:
                    if cells:
                        yield last + 1, cells
                    last = skipped + reader.line_num
        except csv.Error:
            raise CsvError(last + 1, _OPEN) from None
        finally:
            csv.field_size_limit(before)

    def _separator(self) -> str:
        """The only separator that parts the header into columns; a comma where there is none, or several."""
        parting = []
        for candidate in _NAMES:
            self.separator = candidate
            try:
                if len(next((cells for _, cells in self._rows()), [])) > 1:
                    parting.append(candidate)
            except CsvError:
                continue  # a quoted cell ends at another separator
        return parting[0] if len(parting) == 1 else COMMA
