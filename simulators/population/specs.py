"""Populations: the true value of every device at every epoch, drawn or read from a table.

A population is named by a text, the SPEC of the command line:

    syn  syn:0.1                    uniform; each epoch a new draw with probability 0.25 (or 0.1)
    zipf:1.1  zipf:1.1:0.1          the same from the law where value i has weight 1/(i+1)**1.1
    csv:FILE:COLUMN                 every row is a device with one value for all epochs
    csv:FILE:COLUMN,permute         the same values dealt anew to the devices in every epoch
    csv:FILE:COL1..COLn             every row is a device, every column an epoch
    panel:FILE:device,epoch,value   long format: one row per device and epoch, in any order; an epoch is its
                                    index, or a date or an instant (2026-01-09, 2026-01-09T06:00:00Z)

The part after the last ``:`` names the columns, so a path may contain ``:`` and a column name may
not. Column names may contain spaces. In ``COL1..COLn``, ends that share a prefix and end in numbers
(``PWGTP1..PWGTP80``) mean the columns of that prefix with numbers in between, in the order of the
numbers; any other ends mean the columns between them in file order. An empty cell means the device
is absent. Several attributes of the same devices: :mod:`ldpbeam.simulators.population.joint`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ldpbeam.collection.epochs import Epochs, instant
from ldpbeam.simulators.population.tables import (
    TextColumn,
    column_names,
    epoch_of_text,
    line_of,
    read_columns,
)
from ldpbeam.simulators.words import Streams

__all__ = ["ABSENT", "SPECS", "DomainView", "Panel", "Population", "population"]

ABSENT = -1
"""Stands in place of the value of a device that takes no part in an epoch."""

SPECS = (
    "syn[:CHANGE], zipf:EXPONENT[:CHANGE], csv:FILE:COLUMN[,permute], csv:FILE:COL1..COLn, "
    "panel:FILE:device,epoch,value; for several attributes also table:FILE[,permute], marginals:FILE"
)
"""The forms a population's SPEC can take, for messages and help."""

_CHANGE = 0.25
"""Probability that a device draws a new value in an epoch (Syn, paper 000, section 5.1)."""


class DomainView(Protocol):
    """What a population must know of a collection's domain (``ldpbeam.collection.domain.Domain`` is one)."""

    @property
    def size(self) -> int:
        """Number of values."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """One name per value, when the collection lists them."""

    @property
    def maximum(self) -> float | None:
        """Upper end of a numeric range cut into buckets; None for labels and for a plain size."""

    def index(self, raw: str) -> int:
        """The value a raw text stands for. Not asked when the domain is a plain size.

        Raises:
            ValueError: the domain has no such value.
        """


class Population(Protocol):
    """The truth a simulation is measured against."""

    @property
    def devices(self) -> int:
        """Number of devices, present or not."""

    @property
    def epochs(self) -> int:
        """Number of epochs."""

    @property
    def domain_size(self) -> int:
        """Number of values of the domain."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """A name per value when the domain or data gives them; '' for values the data lacks."""

    def values(self) -> Iterator[NDArray[np.int32]]:
        """The epochs in order, the same ones at every call.

        Yields:
            Array of shape (devices,), int32, owned by the caller: each device's value in
            ``[0, domain_size)``, or -1 (``ABSENT``) when it takes no part in the epoch.
        """


def population(
    spec: str,
    *,
    domain: DomainView,
    devices: int | None,
    epochs: int | None,
    streams: Streams,
    calendar: Epochs | None = None,
) -> Population:
    """The population a SPEC describes (forms: module docstring).

    Raw texts of a file become values through the domain. For a plain size there is nothing to look
    up: the distinct texts of the columns, sorted (as numbers when all are numbers, else as text),
    become 0, 1, …. That numbering uses every row and column the SPEC names, so it does not depend
    on ``devices`` or ``epochs``.

    Args:
        spec: the description.
        domain: the collection's domain.
        devices: number of devices; required for ``syn`` and ``zipf``. For files, None takes all and
            a number takes the first ones in file order (of a panel: in order of first appearance).
        epochs: number of epochs; required unless the file has a time axis, of which a number takes
            the first epochs and None all.
        streams: source of all draws, which are made once per epoch for all devices together.
        calendar: the collection's epochs, which say when dates and instants of a panel are; without them a
            panel's epochs must be indices.

    Returns:
        The population; files have been read by then.

    Raises:
        ValueError: the SPEC is not well formed, a required number is missing or not positive, the
            file lacks a column, devices or epochs, or holds what the domain does not.
    """
    for name, number in (("devices", devices), ("epochs", epochs)):
        if number is not None and number < 1:
            raise ValueError(f"population {spec!r} cannot have {number} {name}; ask for at least 1")
    kind, _, rest = spec.partition(":")
    build = _KINDS.get(kind)
    if build is None:
        raise ValueError(f"unknown population {spec!r}; the forms are {SPECS}")
    return build(Request(spec, rest, domain, devices, epochs, streams, calendar=calendar))


@dataclass(frozen=True, eq=False)
class Request:
    """The arguments of :func:`population`, with the SPEC's first word cut off into ``rest``.

    ``purpose`` names the stream of the draws; attributes of the same devices have one each.
    """

    spec: str
    rest: str
    domain: DomainView
    devices: int | None
    epochs: int | None
    streams: Streams
    purpose: str = "population"
    calendar: Epochs | None = None

    def bad(self, why: str, remedy: str) -> ValueError:
        """An error about the SPEC."""
        return ValueError(f"population {self.spec!r}: {why}; {remedy}")

    def needed(self, name: str, number: int | None) -> int:
        """A number that the data does not provide."""
        if number is None:
            raise self.bad(f"it does not say how many {name} there are", f"give the number of {name}")
        return number

    def at_most(self, name: str, number: int | None, there: int) -> int:
        """A number that the data bounds."""
        if number is not None and number > there:
            raise self.bad(f"{number} {name} asked for, the file has {there}", f"ask for at most {there}")
        return there if number is None else number

    def number(self, what: str, text: str, within: Callable[[float], bool], range_: str) -> float:
        """A numeric parameter."""
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not within(number):
            raise self.bad(f"{what} is {text!r}", f"give a number {range_}")
        return number

    def source(self) -> tuple[Path, str]:
        """The file and the column part."""
        file, colon, columns = self.rest.rpartition(":")
        if not colon or not file or not columns:
            raise self.bad("it does not name a file and its columns", f"the forms are {SPECS}")
        return Path(file), columns


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Values from a law: a start, then in each epoch a new draw with probability ``change``."""

    devices: int
    epochs: int
    domain_size: int
    labels: tuple[str, ...] | None
    cumulative: NDArray[np.float64] | None
    """Distribution function of the law, shape (domain_size,); None is uniform."""
    change: float
    streams: Streams
    purpose: str

    def values(self) -> Iterator[NDArray[np.int32]]:
        """Every epoch from its own generator; a new draw may repeat the old value (paper 000)."""
        current = self._draw(self.streams.generator(self.purpose, 0))
        yield current.copy()
        for epoch in range(1, self.epochs):
            generator = self.streams.generator(self.purpose, epoch)
            changes = generator.random(self.devices) < self.change
            current = np.where(changes, self._draw(generator), current)
            yield current.copy()

    def _draw(self, generator: np.random.Generator) -> NDArray[np.int32]:
        if self.cumulative is None:
            return generator.integers(0, self.domain_size, size=self.devices, dtype=np.int32)
        return np.searchsorted(self.cumulative, generator.random(self.devices), side="right").astype(np.int32)


@dataclass(frozen=True, eq=False)
class _Column:
    """One value per device, the same in every epoch, or dealt anew in every epoch."""

    devices: int
    epochs: int
    domain_size: int
    labels: tuple[str, ...] | None
    column: NDArray[np.int32]
    permute: Streams | None

    def values(self) -> Iterator[NDArray[np.int32]]:
        """The column, or a fresh permutation of it."""
        for epoch in range(self.epochs):
            if self.permute is None:
                yield self.column.copy()
            else:
                yield self.permute.generator("population", epoch).permutation(self.column)


@dataclass(frozen=True, eq=False)
class _Table:
    """One value per device and epoch."""

    domain_size: int
    labels: tuple[str, ...] | None
    table: NDArray[np.int32]
    """Shape (epochs, devices), so that an epoch lies in one piece."""

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.table[0])

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return len(self.table)

    def values(self) -> Iterator[NDArray[np.int32]]:
        """The rows of the table."""
        for row in self.table:
            yield row.copy()


@dataclass(frozen=True, eq=False)
class Panel:
    """One value per device and epoch, at the epochs that the data names.

    Attributes:
        first_epoch: index of the first epoch, where the devices begin.
        epochs: number of epochs from there on, those without any row included.
        domain_size: number of values.
        labels: as in :class:`Population`.
        table: int32 (epochs with rows, devices).
        rows: row of the table by epoch, counted from the first one; in the others every device is absent.
    """

    first_epoch: int
    epochs: int
    domain_size: int
    labels: tuple[str, ...] | None
    table: NDArray[np.int32]
    rows: Mapping[int, int]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.table[0])

    def values(self) -> Iterator[NDArray[np.int32]]:
        """The rows of the table, each at its epoch."""
        for epoch in range(self.epochs):
            if epoch in self.rows:
                yield self.table[self.rows[epoch]].copy()
            else:
                yield np.full(self.devices, ABSENT, dtype=np.int32)


def _syn(request: Request) -> Population:
    return _drawn(request, None, request.rest or str(_CHANGE))


def _zipf(request: Request) -> Population:
    exponent, _, change = request.rest.partition(":")
    s = request.number("the exponent", exponent, lambda x: 0 < x < float("inf"), "above 0: zipf:1.1")
    weights = np.arange(1, request.domain.size + 1, dtype=np.float64) ** -s
    cumulative = np.cumsum(weights)
    cumulative /= cumulative[-1]
    return _drawn(request, cumulative, change or str(_CHANGE))


def _drawn(request: Request, cumulative: NDArray[np.float64] | None, change: str) -> Population:
    return _Drawn(
        request.needed("devices", request.devices),
        request.needed("epochs", request.epochs),
        request.domain.size,
        request.domain.labels,
        cumulative,
        request.number("the change probability", change, lambda x: 0 <= x <= 1, "from 0 to 1"),
        request.streams,
        request.purpose,
    )


def drawn(request: Request, kind: str) -> Population:
    """One attribute of ``syn`` or ``zipf``."""
    return _KINDS[kind](request)


def _csv(request: Request) -> Population:
    path, part = request.source()
    names = column_names(path)
    if ".." in part and part.endswith(",permute"):
        raise request.bad("columns per epoch are not permuted", "leave ',permute' out, or name one column")
    if ".." in part and part not in names:
        return _wide(request, path, _between(request, part, names))
    name, comma, word = part.rpartition(",")
    permute = bool(comma) and word.strip() == "permute" and part not in names
    texts = read_columns(path, [name if permute else part])
    (encoded,), labels = encode(request, path, texts)
    if request.epochs is None:
        raise request.bad(
            "one column holds no epochs",
            f"give the number of epochs, or one column per epoch as in csv:{path}:FIRST..LAST",
        )
    return column(request, encoded, labels, permute)


def column(
    request: Request, values: NDArray[np.int32], labels: tuple[str, ...] | None, permute: bool
) -> Population:
    """One value per device, kept for all epochs, or dealt anew in each."""
    devices = request.at_most("devices", request.devices, values.size)
    return _Column(
        devices,
        request.needed("epochs", request.epochs),
        request.domain.size,
        labels,
        values[:devices],
        request.streams if permute else None,
    )


def _wide(request: Request, path: Path, names: list[str]) -> Population:
    epochs = request.at_most("epochs", request.epochs, len(names))
    encoded, labels = encode(request, path, read_columns(path, names))
    devices = request.at_most("devices", request.devices, encoded[0].size)
    table = np.empty((epochs, devices), dtype=np.int32)
    for row, column in zip(table, encoded, strict=False):
        row[:] = column[:devices]
    return _Table(request.domain.size, labels, table)


def _between(request: Request, part: str, names: list[str]) -> list[str]:
    """The columns ``FIRST..LAST`` stands for."""
    first, _, last = part.partition("..")
    numbered = re.compile(r"(.*?)(\d+)", re.DOTALL)
    low, high = numbered.fullmatch(first), numbered.fullmatch(last)
    if low and high and low[1] == high[1]:
        of_prefix = [m for name in names if (m := numbered.fullmatch(name)) and m[1] == low[1]]
        between = sorted(
            (m for m in of_prefix if int(low[2]) <= int(m[2]) <= int(high[2])),
            key=lambda m: int(m[2]),
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


def _panel(request: Request) -> Population:
    path, part = request.source()
    names = part.split(",")
    if len(names) != 3 or len(set(names)) != 3:
        raise request.bad(
            f"{part!r} does not name three different columns", "write panel:FILE:device,epoch,value"
        )
    device, epoch, value = read_columns(path, names)
    for column in (device, epoch):
        if "" in column.texts:
            row = _first_row(column, "")
            raise ValueError(
                f"{path}, line {line_of(path, row)}: column {column.name!r} is empty, so the "
                "value belongs to no device and epoch; fill it in or remove the row"
            )
    encoded, labels = encode(request, path, [value])
    index = _epoch_indices(request, path, epoch)
    there = sorted(set(index))
    rank = {found: rank for rank, found in enumerate(there)}
    epoch_of = _recoded(epoch, (rank[found] for found in index))
    cell = epoch_of.astype(np.int64) * len(device.texts) + device.codes
    first = np.full(len(rank) * len(device.texts), cell.size, dtype=np.int64)
    np.minimum.at(first, cell, np.arange(cell.size))
    clashes = np.flatnonzero(value.codes[first[cell]] != value.codes)
    if clashes.size:
        row = int(clashes[0])
        raise ValueError(
            f"{path}, line {line_of(path, row)}: a second, different value for device "
            f"{device.texts[device.codes[row]]!r} in epoch {epoch.texts[epoch.codes[row]]!r}, but "
            f"a device holds one value per epoch; keep one of them ({clashes.size} such rows)"
        )
    table = np.full((len(rank), len(device.texts)), ABSENT, dtype=np.int32)
    table[epoch_of, device.codes] = encoded[0]
    epochs = request.at_most("epochs", request.epochs, there[-1] - there[0] + 1)
    devices = request.at_most("devices", request.devices, len(device.texts))
    return Panel(
        there[0],
        epochs,
        request.domain.size,
        labels,
        np.ascontiguousarray(table[:, :devices]),
        {found - there[0]: rank for found, rank in rank.items()},
    )


def _epoch_indices(request: Request, path: Path, column: TextColumn) -> list[int]:
    """The epoch index of each distinct text: as it stands, or the epoch that holds the date or instant.

    Raises:
        ValueError: a text is neither, lies outside the collection's epochs, or the column mixes them.
    """
    calendar = request.calendar
    found: list[int] = []
    kinds: set[bool] = set()

    def fail(text: str, why: str) -> ValueError:
        line = line_of(path, _first_row(column, text))
        return ValueError(f"{path}, line {line}, column {column.name!r}: {why}")

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
            planned = f"0 .. {calendar.count - 1}" if calendar is not None else "0 or more"
            begins = "" if calendar is None or is_index else f", which begin at {instant(calendar.origin)}"
            remedy = "correct the column" if is_index else "set epoch.origin of the collection, or the column"
            raise fail(text, f"epoch {epoch} is none of the planned epochs {planned}{begins}; {remedy}")
        found.append(epoch)
    return found


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
    return [_recoded(column, (value_of[text] for text in column.texts)) for column in columns], labels


def _looked_up(domain: DomainView, path: Path, column: TextColumn, text: str) -> int:
    """The value of one text, or an error that says where the text stands."""
    try:
        return domain.index(text)
    except ValueError as error:
        line = line_of(path, _first_row(column, text))
        raise ValueError(
            f"{path}, line {line}, column {column.name!r}: {text!r} is no value of the domain "
            f"({error}); correct the file or the collection's domain"
        ) from None


def _recoded(column: TextColumn, values: Iterable[int]) -> NDArray[np.int32]:
    table = np.fromiter(values, dtype=np.int32, count=len(column.texts))
    recoded: NDArray[np.int32] = table[column.codes]
    return recoded


def _first_row(column: TextColumn, text: str) -> int:
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


_KINDS: dict[str, Callable[[Request], Population]] = {
    "syn": _syn,
    "zipf": _zipf,
    "csv": _csv,
    "panel": _panel,
}
