"""Populations whose devices say slices: labels from the file of their values, or drawn once for a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.slice_shares import SliceShares
from ldpbeam.collection.slices import MOST_COMBINATIONS, OTHER, Dimension, Slices

from ..random_words import RandomWords
from .columns import column, dealt_anew
from .joint import Joint
from .panel import arranged
from .request import Note, Population, Request, unnoted
from .tables import TextColumn, column_names, counted, read_columns, recoded

Epochs = Callable[[], Iterator[NDArray[np.int32]]]
"""What devices have in each epoch: values, or the places of labels in a dimension."""


@dataclass(frozen=True, eq=False)
class SlicedPopulation:
    """A population with the slice of each device in each epoch; ``labels`` are those of each dimension."""

    population: Population | Joint
    slices: Slices
    labels: tuple[Epochs, ...]

    @classmethod
    def drawn(
        cls, population: Population | Joint, slices: Slices, random_words: RandomWords
    ) -> SlicedPopulation:
        """With labels that all are equally frequent."""
        labels = [_drawn(one, None, random_words, population.devices) for one in slices.dimensions]
        return cls(population, slices, tuple(labels))

    def epochs(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Of each epoch the values, and places of devices' slices among all combinations, int64."""
        labels = [one() for one in self.labels]
        for values in self.population.values():
            places = np.zeros(len(values), np.int64)
            for one, some in zip(self.slices.dimensions, labels, strict=True):
                # A device without a label is absent.
                places = places * len(one.labels) + np.maximum(next(some), 0)
            yield values, places


def sliced(
    spec: str,
    population: Population | Joint,
    collection: Collection,
    columns_of: Sequence[tuple[str, str]] = (),
    shares: Sequence[SliceShares] = (),
    *,
    random_words: RandomWords,
    note: Note = unnoted,
) -> SlicedPopulation:
    """The population that a SPEC described, with slices.

    Labels come from the columns of the population's file, (dimension, column); those of other dimensions are
    drawn, by their shares or equally often.
    """
    slices, columns = collection.slices, dict(columns_of)
    given = {one.name: one for one in shares}
    there = [dimension.name for dimension in slices.dimensions]
    names = [*(name for name, _ in columns_of), *given]
    for name in names:
        if name not in there:
            raise ValueError(
                f"the collection has no slices.{name}; it has: {', '.join(there) or 'no slices'}"
            )
        if names.count(name) > 1:
            raise ValueError(f"slices.{name} has two columns, or a column and shares; give one of them")
    request = Request(
        *(spec, spec.partition(":")[2], Domain(MOST_COMBINATIONS), population.devices, population.epochs),
        random_words,
        calendar=collection.epochs,
        note=note,
    )
    labels: list[Epochs] = []
    for one in slices.dimensions:
        if one.name in columns:
            labels.append(_of_file(request, columns[one.name], one))
            continue
        if one.name not in given:
            note(f"slices.{one.name}: devices draw their labels, which are equally frequent")
        labels.append(_drawn(one, given.get(one.name), random_words, population.devices))
    return SlicedPopulation(population, slices, tuple(labels))


def _drawn(
    dimension: Dimension, given: SliceShares | None, random_words: RandomWords, devices: int
) -> Epochs:
    """Labels that devices draw once, each from its own random number."""
    count = len(dimension.labels)
    shares: Sequence[float] = [1 / count] * count if given is None else given.of(dimension)
    numbers = random_words.generator(f"slices.{dimension.name}", 0).random(devices)
    places = np.searchsorted(np.cumsum(shares)[:-1], numbers, side="right").astype(np.int32)
    return partial(repeat, places)


def _of_file(request: Request, name: str, dimension: Dimension) -> Epochs:
    """The labels of a column of the population's file."""
    kind = request.spec.partition(":")[0]
    permute, keys = False, list[str]()
    if kind == "table":
        path, permute = Path(request.rest.removesuffix(",permute")), request.rest.endswith(",permute")
    elif kind == "csv":
        path, part = request.source()
        _, permute = dealt_anew(part, column_names(path))
    elif kind == "panel":
        path, part = request.source()
        keys = part.split(",")[:2]
    else:
        raise request.bad("its values are drawn, so it has no columns", "give --slice-shares")
    *rows, labels = read_columns(path, [*keys, name])
    places = _places(request, path, labels, dimension)
    if keys:
        # The column of the values has had its say about the rows.
        return arranged(replace(request, note=unnoted), path, (*rows, labels), places, None).values
    return column(request, places, None, permute).values


def _places(request: Request, path: Path, labels: TextColumn, dimension: Dimension) -> NDArray[np.int32]:
    places = {label: place for place, label in enumerate(dimension.labels)}
    unlisted = [text for text in labels.texts if text not in places]
    if unlisted and not dimension.is_open:
        raise ValueError(
            f"{path}:{labels.line_of(unlisted[0])}: column {labels.name!r}: {unlisted[0]!r} is no label of "
            f"slices.{dimension.name}; correct the file, or add {OTHER} to the labels of the collection"
        )
    if unlisted:
        request.note(
            f"{path}: column {labels.name!r}: {counted(labels.lines_with(unlisted).size, 'cell')} with "
            f"{counted(len(unlisted), 'label')} that slices.{dimension.name} does not list: taken for "
            f"{OTHER!r}"
        )
    return recoded(labels, (places.get(text, places.get(OTHER, 0)) for text in labels.texts))
