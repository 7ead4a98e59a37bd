"""Populations in the long format: one row per device and epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldpbeam.collection.epochs import parse_instant

from .request import ABSENT, INDEX, Population, Request
from .tables import TextColumn, column_names, counted, encode, in_header, note_absent, read_columns, recoded


@dataclass(frozen=True, eq=False)
class Panel:
    """One value per device and epoch, at the epochs that the data names."""

    first_epoch: int
    epochs: int
    labels: tuple[str, ...] | None
    table: NDArray[np.int32]
    rows: Mapping[int, int]

    @property
    def devices(self) -> int:
        return len(self.table[0])

    def values(self) -> Iterator[NDArray[np.int32]]:
        for epoch in range(self.epochs):
            if epoch in self.rows:
                yield self.table[self.rows[epoch]].copy()
            else:
                yield np.full(self.devices, ABSENT, dtype=np.int32)


def panel(request: Request) -> Population:
    path, part = request.source()
    names = part.split(",")
    if len(names) != 3 or len(set(names)) != 3:
        raise request.bad(
            f"{part!r} does not name three different columns", "write panel:FILE:device,epoch,value"
        )
    indices = names[2].startswith(INDEX)
    device, epoch, value = read_columns(path, [*names[:2], in_header(names[2], column_names(path))])
    for column in (device, epoch):
        if "" in column.texts:
            raise ValueError(
                f"{path}:{column.line_of('')}: column {column.name!r} is empty, so the "
                "value belongs to no device and epoch; fill it in or remove the row"
            )
    (encoded,), labels = encode(request, path, [value], indices=indices)
    return arranged(request, path, (device, epoch, value), encoded, labels)


def arranged(
    request: Request,
    path: Path,
    columns: Sequence[TextColumn],
    encoded: NDArray[np.int32],
    labels: tuple[str, ...] | None,
) -> Panel:
    """The rows of a file by epoch and device."""
    device, epoch, value = columns
    index = _epoch_indices(request, path, epoch)
    there = sorted(set(index))
    rank = {epoch_index: rank for rank, epoch_index in enumerate(there)}
    epoch_of = recoded(epoch, (rank[epoch_index] for epoch_index in index))
    cell = epoch_of.astype(np.int64) * len(device.texts) + device.codes
    note_absent(request, path, [value])
    copies = _require_one(path, device, epoch, value, cell)
    if copies:
        what = "with the device, epoch and value of an earlier row: passed over"
        request.note(f"{path}: {counted(copies, 'row')} {what}")
    table = np.full((len(rank), len(device.texts)), ABSENT, dtype=np.int32)
    table[epoch_of, device.codes] = encoded
    epochs = request.at_most("epochs", request.epochs, there[-1] - there[0] + 1)
    devices = request.at_most("devices", request.devices, len(device.texts))
    return Panel(
        there[0],
        epochs,
        labels,
        np.ascontiguousarray(table[:, :devices]),
        {epoch_index - there[0]: rank for epoch_index, rank in rank.items()},
    )


def _require_one(
    path: Path, device: TextColumn, epoch: TextColumn, value: TextColumn, cell: NDArray[np.int64]
) -> int:
    """How many rows repeat an earlier one; raises ValueError where a device has two values in an epoch."""
    _, first, place = np.unique(cell, return_index=True, return_inverse=True)
    clashes = np.flatnonzero(value.codes[first[place]] != value.codes)
    if clashes.size:
        row = int(clashes[0])
        raise ValueError(
            f"{path}:{value.lines[row]}: a second, different value for device "
            f"{device.texts[device.codes[row]]!r} in epoch {epoch.texts[epoch.codes[row]]!r}, but "
            f"a device holds one value per epoch; keep one of them ({counted(clashes.size, 'such row')})"
        )
    return int(cell.size - first.size)


def _epoch_indices(request: Request, path: Path, column: TextColumn) -> list[int]:
    """The epoch index of each distinct text: as it stands, or the epoch that holds the date or instant."""
    calendar = request.calendar
    epochs: list[int] = []
    kinds: set[bool] = set()

    def fail(text: str, why: str) -> ValueError:
        return ValueError(f"{path}:{column.line_of(text)}: column {column.name!r}: {why}")

    for text in column.texts:
        try:
            number, is_index = epoch_of_text(text)
        except ValueError as error:
            raise fail(text, str(error)) from None
        kinds.add(is_index)
        if len(kinds) > 1:
            raise fail(text, "indices and dates stand in one column; write all epochs one way")
        if is_index:
            epoch = number
        elif calendar is None:
            raise fail(text, "a date needs the collection's epochs; write the epoch's index")
        else:
            epoch = calendar.index(number)
        if epoch < 0 or (calendar is not None and not calendar.contains(epoch)):
            why = f"epoch {epoch} is none of the planned epochs, which count from 0"
            raise fail(text, f"{why}: correct the column, or epoch.origin of the collection")
        epochs.append(epoch)
    if kinds == {True} and min(epochs) == 1:
        request.note(
            f"{path}: column {column.name!r} begins with 1, and epochs count from 0: nothing is reported in "
            "epoch 0; if the column counts from 1, subtract 1 from it"
        )
    return epochs


def epoch_of_text(text: str) -> tuple[int, bool]:
    """What a cell of a time column says: an epoch's index, or seconds since 1970."""
    if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
        return int(text), True
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
            return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()), False
        return parse_instant(datetime.fromisoformat(text).replace(microsecond=0)), False
    except ValueError:
        raise ValueError(
            "an epoch is neither an index (5), nor a date (year-month-day, 2026-01-09), nor an instant with "
            "its time zone (2026-01-09T06:00:00Z); write one of these"
        ) from None
