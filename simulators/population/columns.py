"""Populations from columns of a CSV file: one value per device, or one column per epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..random_words import RandomWords
from .panel import Panel
from .request import INDEX, Population, Request
from .tables import column_names, encode, in_header, note_absent, read_columns


@dataclass(frozen=True, eq=False)
class _Dealt:
    """The values of a column, dealt anew in every epoch."""

    devices: int
    epochs: int
    labels: tuple[str, ...] | None
    column: NDArray[np.int32]
    random_words: RandomWords

    def values(self) -> Iterator[NDArray[np.int32]]:
        for epoch in range(self.epochs):
            yield self.random_words.generator("population", epoch).permutation(self.column)


def csv(request: Request) -> Population:
    """``csv:FILE:COLUMN[,permute]`` or ``csv:FILE:COL1..COLn``."""
    path, part = request.source()
    names = column_names(path)
    if ".." in part and part.endswith(",permute"):
        raise request.bad("columns per epoch are not permuted", "leave ',permute' out, or name one column")
    if ".." in part and in_header(part, names) not in names:
        ends = [in_header(end, names) for end in part.replace(INDEX, "").split("..", 1)]
        return _wide(request, path, _between(request, "..".join(ends), names), part.startswith(INDEX))
    asked, permute = dealt_anew(part, names)
    texts = read_columns(path, [in_header(asked, names)])
    (encoded,), labels = encode(request, path, texts, indices=asked.startswith(INDEX))
    note_absent(request, path, texts)
    if request.epochs is None:
        raise request.bad(
            "one column holds no epochs",
            f"give --epochs N, or one column per epoch as in csv:{path}:FIRST..LAST",
        )
    return column(request, encoded, labels, permute)


def dealt_anew(part: str, names: Sequence[str]) -> tuple[str, bool]:
    """The column that ``COLUMN[,permute]`` names, and whether its values are dealt anew in each epoch."""
    name, comma, word = part.rpartition(",")
    permute = bool(comma) and word.strip() == "permute" and part not in names
    return name if permute else part, permute


def column(
    request: Request, values: NDArray[np.int32], labels: tuple[str, ...] | None, permute: bool
) -> Population:
    devices = request.at_most("devices", request.devices, values.size)
    epochs, held = request.needed("epochs", request.epochs), values[:devices]
    if permute:
        return _Dealt(devices, epochs, labels, held, request.random_words)
    return Panel(0, epochs, labels, held[None], dict.fromkeys(range(epochs), 0))


def _wide(request: Request, path: Path, names: list[str], indices: bool) -> Population:
    epochs = request.at_most("epochs", request.epochs, len(names))
    texts = read_columns(path, names)
    encoded, labels = encode(request, path, texts, indices=indices)
    note_absent(request, path, texts)
    devices = request.at_most("devices", request.devices, encoded[0].size)
    table = np.empty((epochs, devices), dtype=np.int32)
    for row, column in zip(table, encoded, strict=False):
        row[:] = column[:devices]
    return Panel(0, epochs, labels, table, {epoch: epoch for epoch in range(epochs)})


def _between(request: Request, part: str, names: list[str]) -> list[str]:
    first, _, last = part.partition("..")
    numbered = re.compile(r"(.*?)([0-9]+)", re.DOTALL)
    low, high = numbered.fullmatch(first), numbered.fullmatch(last)
    if low and high and low[1] == high[1]:
        of_prefix = [m for name in names if (m := numbered.fullmatch(name)) and m[1] == low[1]]
        between = sorted(
            (m for m in of_prefix if int(low[2]) <= int(m[2]) <= int(high[2])), key=lambda m: int(m[2])
        )
        chosen = [m[0] for m in between]
    elif first in names and last in names:
        chosen = names[names.index(first) : names.index(last) + 1]
    else:
        chosen = []
    missing = [end for end in (first, last) if end not in names]
    if not chosen and not missing:
        raise request.bad(f"{first!r} comes after {last!r}", "name the earlier column first")
    return missing or chosen  # reading reports the missing ones, with the names there are
