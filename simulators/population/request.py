"""What a simulation asks of a population, and what a population is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs

from ..random_words import RandomWords

ABSENT = -1
"""Stands in place of the value of a device that takes no part in an epoch."""

SPECS = (
    "syn[:CHANGE], zipf:EXPONENT[:CHANGE], csv:FILE:COLUMN[,permute], csv:FILE:COL1..COLn, "
    "panel:FILE:device,epoch,value; for several attributes also table:FILE[,permute]"
)
"""The forms a population's SPEC can take, for messages and help."""

INDEX = "index:"
"""Stands before the name of a column that holds indices, in a SPEC or in the file's first row."""

_SOURCE = re.compile(r"(.+?):((?:[^:]|(?:(?<=:)|(?<=,)|(?<=\.\.))index:)+)", re.DOTALL)
"""A file and its columns: those after the last colon that does not belong to :data:`INDEX`."""


class Population(Protocol):
    @property
    def devices(self) -> int:
        """Number of devices, present or not."""

    @property
    def epochs(self) -> int:
        """Number of epochs."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """A name per value when the domain or data gives them; '' for values the data lacks."""

    def values(self) -> Iterator[NDArray[np.int32]]:
        """What devices hold, an array int32 (devices,) for each epoch, which the caller owns."""


Note = Callable[[str], None]
"""Takes a line about a file, for a person."""


def unnoted(_: str) -> None:
    """Leave a line about a file unsaid."""


@dataclass(frozen=True, eq=False)
class Request:
    """The arguments of :func:`population`, with the SPEC's first word cut off into ``rest``."""

    spec: str
    rest: str
    domain: Domain
    devices: int | None
    epochs: int | None
    random_words: RandomWords
    purpose: str = "population"
    calendar: Epochs | None = None
    note: Note = unnoted

    def bad(self, why: str, remedy: str) -> ValueError:
        return ValueError(f"population {self.spec!r}: {why}; {remedy}")

    def needed(self, name: str, number: int | None) -> int:
        if number is None:
            raise self.bad(f"it does not say how many {name} there are", f"give --{name} N")
        return number

    def at_most(self, name: str, number: int | None, there: int) -> int:
        if number is not None and number > there:
            raise self.bad(f"{number} {name} asked for, the file has {there}", f"ask for at most {there}")
        return there if number is None else number

    def number(self, what: str, text: str, within: Callable[[float], bool], range_: str) -> float:
        try:
            number = float(text if text.isascii() else "nan")
        except ValueError:
            number = float("nan")
        if not within(number):
            raise self.bad(f"{what} is {text!r}", f"give a number {range_}")
        return number

    def source(self) -> tuple[Path, str]:
        match = _SOURCE.fullmatch(self.rest)
        if match is None:
            raise self.bad("it does not name a file and its columns", f"the forms are {SPECS}")
        return Path(match[1]), match[2]
