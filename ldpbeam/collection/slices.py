"""Slices: what devices say in clear with every report, such as a version, a country or an arm.

Every combination of labels has a digest, which its reports carry in place of the collection's own. Nothing
else of a device depends on its slice: memo, budget, report ids and epochs belong to the collection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain, product
from math import prod

from ldpbeam.collection.domain import require_printable, require_unique
from ldpbeam.errors import DeviceError, require

MOST_COMBINATIONS = 1000
MOST_CELLS = 1 << 26
"""Cells of the tables of all combinations together: half a gigabyte."""

OTHER = "other"
"""The label that stands for all labels which an open dimension does not list."""

COLUMN = "slice_"
"""Stands before the name of a dimension where it is the name of a column."""

_LABEL = b"ldpbeam slice 1\0"

Slice = tuple[tuple[str, str], ...]
"""(dimension, label) pairs in the order of the dimensions; those that are not named are summed over."""

WHOLE: Slice = ()
"""All reports of a collection."""


@dataclass(frozen=True)
class Dimension:
    """One thing that devices say in clear, and all labels that it can have."""

    name: str
    labels: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Whether devices may have labels that are not listed, and report as :data:`OTHER`."""
        return OTHER in self.labels

    def require_sound(self) -> None:
        """Raise CollectionError for labels that are empty, repeated or not to be printed."""
        of = f"slices.{self.name}"
        require(self.labels, "slices", f"{of} has no label", "List its labels, or remove it.")
        require_unique(self.labels, f"{of} has label", "slices")
        for label in self.labels:
            require(label, "slices", f"{of} has an empty label", "Give every label a text.")
            require_printable(label, f"label {label[:40]!r} of {of}", "slices")


@dataclass(frozen=True)
class Slices:
    """The dimensions of a collection; none for most collections, which have no slices."""

    dimensions: tuple[Dimension, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.dimensions)

    def require_sound(self, cells: int) -> None:
        """Raise CollectionError for names or labels that cannot be told apart, or too many combinations."""
        for dimension in self.dimensions:
            dimension.require_sound()
        names = [dimension.name.casefold() for dimension in self.dimensions]
        require(
            len(set(names)) == len(names),
            "slices",
            "slices has two dimensions whose names differ in capital letters only",
            "Give every dimension a name of its own.",
        )
        count = prod(len(dimension.labels) for dimension in self.dimensions)
        require(
            count <= MOST_COMBINATIONS,
            "slices",
            f"slices has {count:,} combinations of labels, and {MOST_COMBINATIONS:,} are the most",
            "Merge rare labels into other, or leave a dimension out.",
        )
        require(
            count * cells <= MOST_CELLS,
            "slices",
            f"{count:,} combinations with {cells:,} counts each are more than {MOST_CELLS:,} counts",
            "Merge rare labels into other, or ask for fewer values.",
        )

    def as_record(self) -> dict[str, list[str]]:
        return {one.name: list(one.labels) for one in self.dimensions}

    @classmethod
    def of(cls, labels: Mapping[str, Iterable[str]]) -> Slices:
        return cls(tuple(Dimension(name, tuple(some)) for name, some in labels.items()))

    @cached_property
    def combinations(self) -> tuple[Slice, ...]:
        """All slices that a report can have, the last dimension running fastest; none without dimensions."""
        return self._combined(self.dimensions) if self.dimensions else ()

    @cached_property
    def published(self) -> tuple[Slice, ...]:
        """The slices of a result: the whole, the labels of each dimension, then the combinations."""
        single = [one for dimension in self.dimensions for one in self._combined([dimension])]
        return tuple(dict.fromkeys((WHOLE, *single, *self.combinations)))

    @cached_property
    def said(self) -> tuple[Slice, ...]:
        """The slices that reports may have: also those of devices that do not know of some dimension yet."""
        each = [[(), *(((one.name, label),) for label in one.labels)] for one in self.dimensions]
        return tuple(one for some in product(*each) if (one := tuple(chain.from_iterable(some))))

    @staticmethod
    def _combined(dimensions: Iterable[Dimension]) -> tuple[Slice, ...]:
        each = [[(one.name, label) for label in one.labels] for one in dimensions]
        return tuple(product(*each))

    def of_device(self, given: Mapping[str, str] | None) -> Slice:
        """The slice of a device that says these labels; empty for a collection without slices."""
        names = [dimension.name for dimension in self.dimensions]
        said: object = {} if given is None else given
        if not names and said != {}:
            raise DeviceError(
                "E-DEVICE-SLICE",
                "the collection has no slices, and the device says one",
                remedy="Leave it out.",
            )
        if not isinstance(said, Mapping) or set(said) != set(names):
            raise DeviceError(
                "E-DEVICE-SLICE",
                f"the collection takes a label for each of {', '.join(names)}, and of nothing else",
                remedy="Give slice={...} with one label for each of these dimensions.",
            )
        return tuple((one.name, _listed(one, said[one.name])) for one in self.dimensions)

    def chosen(self, given: Mapping[str, str]) -> Slice:
        """The slice of some dimensions' labels, in the order of the dimensions."""
        slice_ = tuple((one.name, given[one.name]) for one in self.dimensions if one.name in given)
        if len(slice_) != len(given) or slice_ not in self.published:
            some = ", ".join(f"{one.name}={'|'.join(one.labels[:8])}" for one in self.dimensions)
            raise ValueError(f"results have one label of a dimension, or one of each: {some or 'none'}")
        return slice_


def _listed(dimension: Dimension, label: object) -> str:
    if isinstance(label, str) and label in dimension.labels:
        return label
    if isinstance(label, str) and dimension.is_open:
        return OTHER
    raise DeviceError(
        "E-DEVICE-SLICE",
        f"the label that the device says of {dimension.name} is none of the collection's",
        remedy=f"Give one of slices.{dimension.name}, or add {OTHER} to it in the collection's file.",
    )


def slice_digest(full_digest: bytes, slice_: Slice) -> int:
    """What reports of a slice carry: a function of the collection and the labels, not of their places."""
    if not slice_:
        return int.from_bytes(full_digest[:8], "little")
    hashed = sha256(_LABEL + full_digest)
    for pair in sorted(tuple(text.encode() for text in pair) for pair in slice_):
        for text in pair:
            hashed.update(len(text).to_bytes(4, "little") + text)
    return int.from_bytes(hashed.digest()[:8], "little")


def slice_text(slice_: Slice) -> str:
    """For people: ``country=DE, channel=beta``, or ``all``."""
    return ", ".join(f"{name}={label}" for name, label in slice_) or "all"


def parse_slice(texts: Iterable[str]) -> dict[str, str]:
    """Labels by dimension of texts such as ``channel=beta``."""
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, label = text.partition("=")
        if not equals or not name or name in labels:
            raise ValueError(f"{text!r} is no slice such as channel=beta, or names {name!r} twice")
        labels[name] = label
    return labels


NO_SLICES = Slices()
