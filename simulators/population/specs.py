"""Populations: the true value of every device at every epoch, drawn or read from a table.

A text names a population, the SPEC of the command line (docs/commands.md has its forms). The part after its
last ``:`` names the columns, so a path may contain ``:`` and a column name may not. In ``COL1..COLn``, ends
that share a prefix and end in numbers (``PWGTP1..PWGTP80``) mean the columns of that prefix with numbers in
between, in the order of the numbers; any other ends mean the columns between them in file order.
"""

from __future__ import annotations

from collections.abc import Callable

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.string_domain import StringDomain

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
    purpose: str = "population",
) -> Population:
    """The population a SPEC describes (docs/commands.md)."""
    kind, _, rest = spec.partition(":")
    build = _KINDS.get(kind)
    if build is None:
        raise ValueError(f"unknown population {spec!r}; the forms are {SPECS}")
    if isinstance(domain, StringDomain) and build in (syn, zipf):
        raise ValueError(
            f"population {spec!r} draws from listed values, and nobody lists strings; give csv:FILE:COLUMN"
        )
    return build(Request(spec, rest, domain, devices, epochs, random_words, purpose, calendar, note))
