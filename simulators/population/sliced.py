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
from .request import ABSENT, Note, Population, Request, unnoted
from .tables import TextColumn, column_names, counted, read_columns, recoded

Epochs = Callable[[], Iterator[NDArray[np.int32]]]
"""What devices have in each epoch: values, or the places of labels in a dimension."""

Draw = Callable[[str, str], Population | Joint]
"""Draws a population of a SPEC, for a purpose of its own."""


@dataclass(frozen=True, eq=False)
class SlicedPopulation:
    """A population with the slice of each device in each epoch.

    Attributes:
        labels: of the devices, for each dimension.
        own: (dimension, label, values): what the devices with a label hold instead.
    """

    population: Population | Joint
    slices: Slices
    labels: tuple[Epochs, ...]
    own: tuple[tuple[int, int, Epochs], ...] = ()

    @classmethod
    def drawn(
        cls, population: Population | Joint, slices: Slices, random_words: RandomWords
    ) -> SlicedPopulation:
        """With labels that all are equally frequent."""
        labels = [_drawn(one, None, random_words, population.devices) for one in slices.dimensions]
        return cls(population, slices, tuple(labels))

    def epochs(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Of each epoch the values, and places of devices' slices among all combinations, int64."""
        labels, own = [one() for one in self.labels], [one() for _, _, one in self.own]
        for held in self.population.values():
            # A device without a label is absent.
            said = [np.maximum(next(places), 0) for places in labels]
            values = held
            for (dimension, label, _), others in zip(self.own, own, strict=True):
                here = (said[dimension] == label).reshape(-1, *[1] * (held.ndim - 1))
                values = np.where(here & (held != ABSENT), next(others), values)
            places = np.zeros(len(held), np.int64)
            for one, some in zip(self.slices.dimensions, said, strict=True):
                places = places * len(one.labels) + some
            yield values, places


@dataclass(frozen=True)
class SlicesAsked:
    """How devices come by their slices.

    Attributes:
        columns: (dimension, column of the population's file); the labels of other dimensions are drawn.
        shares: of labels that are drawn; equal ones where there are none.
        own: texts such as ``arm=treatment:zipf:1.3``, a label and what its devices hold instead.
    """

    columns: tuple[tuple[str, str], ...] = ()
    shares: tuple[SliceShares, ...] = ()
    own: tuple[str, ...] = ()


def sliced(
    spec: str,
    population: Population | Joint,
    collection: Collection,
    asked: SlicesAsked,
    *,
    random_words: RandomWords,
    draw: Draw,
    note: Note = unnoted,
) -> SlicedPopulation:
    """The population that a SPEC described, with slices; ``draw`` makes those of other SPECs."""
    slices, columns = collection.slices, dict(asked.columns)
    given = {one.name: one for one in asked.shares}
    names = [*(name for name, _ in asked.columns), *given]
    for name in names:
        _place(name, slices)
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
    others = []
    for text in asked.own:
        dimension, label, other = _own(text, slices)
        purpose = f"population of {text.removesuffix(f':{other}')}"
        others.append((dimension, label, draw(other, purpose).values))
    return SlicedPopulation(population, slices, tuple(labels), tuple(others))


def _place(name: str, slices: Slices) -> int:
    """The place of a dimension."""
    names = [dimension.name for dimension in slices.dimensions]
    if name not in names:
        raise ValueError(f"the collection has no slices.{name}; it has: {', '.join(names) or 'no slices'}")
    return names.index(name)


def _own(text: str, slices: Slices) -> tuple[int, int, str]:
    """The dimension, the label and the SPEC of a text such as ``arm=treatment:zipf:1.3``."""
    name, _, rest = text.partition("=")
    place = _place(name, slices)
    labels = slices.dimensions[place].labels
    label = max((one for one in labels if rest.startswith(f"{one}:")), default="")  # a:b sorts behind a
    spec = rest[len(label) + 1 :]
    if not label or spec.partition(":")[0] not in {"syn", "zipf"}:
        raise ValueError(
            f"{text!r} is no label of slices.{name} with syn or zipf, such as {name}={labels[0]}:zipf:1.3"
        )
    return place, labels.index(label), spec


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
    """The place of the label in each row."""
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
