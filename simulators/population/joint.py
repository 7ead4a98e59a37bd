"""Populations of several attributes: what every device holds of each, epoch after epoch.

A device holds all attributes or is absent: a row is whole, or empty and absent.

Where a collection bounds the sum of a device's values (``allocation: together``), ``syn`` and ``zipf`` draw
every attribute as always, then scale the vectors of too large a sum S down: x becomes floor(x·limit/S). A
file with such a row is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldpbeam.collection.domain import Domain

from ..random_words import RandomWords
from .columns import column
from .request import ABSENT, INDEX, Note, Population, Request, unnoted
from .synthetic_values import syn, zipf
from .tables import column_names, counted, encode, in_header, read_columns

JOINT_SPECS = "syn[:CHANGE], zipf:EXPONENT[:CHANGE], table:FILE[,permute]"
"""The forms a SPEC can take for several attributes, for messages and help."""


@dataclass(frozen=True, eq=False)
class Joint:
    parts: tuple[Population, ...]
    limit: int | None = None

    @property
    def devices(self) -> int:
        return self.parts[0].devices

    @property
    def epochs(self) -> int:
        return self.parts[0].epochs

    def values(self) -> Iterator[NDArray[np.int32]]:
        """Yield every epoch's values, int32 (devices, attributes); −1 throughout where absent."""
        for columns in zip(*(part.values() for part in self.parts), strict=True):
            together = np.stack(columns, axis=1)
            yield together if self.limit is None else _scaled(together, self.limit)


def _scaled(values: NDArray[np.int32], limit: int) -> NDArray[np.int32]:
    """Rows with a sum beyond the limit, brought down to it in proportion, rounded down."""
    wide = values.astype(np.int64)
    sums = wide.sum(axis=1, keepdims=True)
    scaled: NDArray[np.int32] = np.where(sums > limit, wide * limit // np.maximum(sums, 1), wide).astype(
        np.int32
    )
    return scaled


def joint_population(
    spec: str,
    *,
    attributes: Sequence[tuple[str, Domain]],
    devices: int | None,
    epochs: int | None,
    random_words: RandomWords,
    limit: int | None = None,
    note: Note = unnoted,
    purpose: str = "population",
) -> Joint:
    """The population a SPEC describes (docs/commands.md)."""
    kind, _, rest = spec.partition(":")
    requests = [
        Request(spec, rest, domain, devices, epochs, random_words, f"{purpose}.{index}", note=note)
        for index, (_, domain) in enumerate(attributes)
    ]
    names = [name for name, _ in attributes]
    if draw := {"syn": syn, "zipf": zipf}.get(kind):
        return Joint(tuple(draw(request) for request in requests), limit)
    if kind == "table" and rest:
        return _table(requests, names, limit)
    raise ValueError(f"unknown population {spec!r} for several attributes; the forms are {JOINT_SPECS}")


def _table(requests: Sequence[Request], names: Sequence[str], limit: int | None) -> Joint:
    first = requests[0]
    permute = first.rest.endswith(",permute")
    path = Path(first.rest.removesuffix(",permute"))
    there = column_names(path)
    texts = read_columns(path, [_named(name, there) for name in names])
    encoded = [encode(r, path, [text]) for r, text in zip(requests, texts, strict=True)]
    absent = np.stack([values[0] == ABSENT for values, _ in encoded], axis=1)
    partly = np.flatnonzero(absent.any(axis=1) & ~absent.all(axis=1))
    if partly.size:
        line = texts[0].lines[partly[0]]
        missing = names[int(np.argmax(absent[partly[0]]))]
        raise ValueError(
            f"{path}:{line}: attribute {missing!r} is empty, but a device holds all "
            f"attributes or none; fill it in or remove the row ({partly.size} such rows)"
        )
    empty = int(absent[:, 0].sum())
    if empty:
        first.note(f"{path}: {counted(empty, 'row')} without values: the device is absent")
    beyond = _beyond([values[0] for values, _ in encoded], limit)
    if beyond.size:
        # Never the values: a file may be real people's data.
        raise ValueError(
            f"{path}:{texts[0].lines[beyond[0]]}: the attributes add up to more than {limit}, "
            f"which the collection's devices refuse; correct or remove the row ({beyond.size} such rows)"
        )
    # Every column is dealt by the same generator, so rows stay together.
    return Joint(
        tuple(
            column(request, values[0], labels, permute)
            for request, (values, labels) in zip(requests, encoded, strict=True)
        )
    )


def _beyond(columns: Sequence[NDArray[np.int32]], limit: int | None) -> NDArray[np.intp]:
    """Rows whose values add up to more than the limit."""
    if limit is None:
        return np.empty(0, np.intp)
    return np.flatnonzero(np.sum(columns, axis=0, dtype=np.int64) > limit)


def _named(name: str, there: Sequence[str]) -> str:
    """The column of an attribute: its own name, or of indices, or the one with blanks where it has ``_``."""
    own = in_header(name, there)
    if own in there:
        return own
    return next((column for column in there if column.removeprefix(INDEX).replace(" ", "_") == name), name)
