"""Texts of a file as values of a domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldpbeam.collection.domain import Domain
from ldpbeam.simulators.population.contract import ABSENT, Request
from ldpbeam.simulators.population.tables import TextColumn, line_of

__all__ = ["encode", "first_row", "recoded"]


def encode(
    request: Request, path: Path, columns: Sequence[TextColumn]
) -> tuple[list[NDArray[np.int32]], tuple[str, ...] | None]:
    """Columns of texts as columns of values (-1 for empty cells), and the values' labels."""
    domain = request.domain
    labels = domain.labels
    if labels is None and domain.maximum is None:
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


def _looked_up(domain: Domain, path: Path, column: TextColumn, text: str) -> int:
    """The value of one text, or an error that says where the text stands."""
    try:
        return domain.index(text)
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
