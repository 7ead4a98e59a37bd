"""Populations: the true value of every device at every epoch, drawn or read from a table.

A population is named by a text, the SPEC of the command line:

    syn  syn:0.1                    uniform; each epoch a new draw with probability 0.25 (or 0.1)
    zipf:1.1  zipf:1.1:0.1          the same from the law where value i has weight 1/(i+1)**1.1
    csv:FILE:COLUMN                 every row is a device with one value for all epochs
    csv:FILE:COLUMN,permute         the same values dealt anew to the devices in every epoch
    csv:FILE:COL1..COLn             every row is a device, every column an epoch
    panel:FILE:device,epoch,value   long format: one row per device and epoch, in any order; an epoch is its
                                    index, or a date or an instant (2026-01-09, 2026-01-09T06:00:00Z)

A cell holds what a person would write: a label, a number of a range or of a size, as docs/wire.md has it.
``index:COLUMN`` is a column of indices, and so is one that the file itself names ``index:…``.

The part after the last other ``:`` names the columns, so a path may contain ``:`` and a column name may
not. Column names may contain spaces. In ``COL1..COLn``, ends that share a prefix and end in numbers
(``PWGTP1..PWGTP80``) mean the columns of that prefix with numbers in between, in the order of the
numbers; any other ends mean the columns between them in file order. An empty cell means the device
is absent, and is counted in a note. Several attributes of the same devices:
:mod:`ldpbeam.simulators.population.joint`.
"""

from __future__ import annotations

from collections.abc import Callable

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs

from ..random_words import RandomWords
from .columns import csv
from .panel import Panel, panel
from .request import ABSENT, SPECS, Note, Population, Request, unnoted
from .synthetic_values import syn, zipf

__all__ = ["ABSENT", "SPECS", "Panel", "Population", "population"]

_KINDS: dict[str, Callable[[Request], Population]] = {"syn": syn, "zipf": zipf, "csv": csv, "panel": panel}


def population(
    spec: str,
    *,
    domain: Domain,
    devices: int | None,
    epochs: int | None,
    random_words: RandomWords,
    calendar: Epochs | None = None,
    note: Note = unnoted,
) -> Population:
    """The population a SPEC describes (forms: module docstring)."""
    for name, number in (("devices", devices), ("epochs", epochs)):
        if number is not None and number < 1:
            raise ValueError(f"population {spec!r} cannot have {number} {name}; ask for at least 1")
    kind, _, rest = spec.partition(":")
    build = _KINDS.get(kind)
    if build is None:
        raise ValueError(f"unknown population {spec!r}; the forms are {SPECS}")
    return build(Request(spec, rest, domain, devices, epochs, random_words, calendar=calendar, note=note))
