"""Writes the vectors of values: ``python -m tests.vectors.values``.

From a domain and what a person gives to the index that a report is about, null where a device refuses it.
What is given stands as JSON: a number, a text, or ``{"index": i}``; anything else is refused.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.values import Index, index_of
from ldpbeam.errors import DeviceError
from tests.vectors.writing import rewrite

DIRECTORY = Path(__file__).parent / "values"

RANGES = (
    (86400, 32),
    (365, 365),
    (1000, 100),
    (10, 100),
    (10, 3),
    (0.1, 3),
    (0.3, 7),
    (1e-7, 5),
    (1e21, 9),
    (123456.789, 1000),
    (2000000, 2000000),
    (1, 1 << 24),
    (4.35, 435),
    (9007199254740993, 11),
)
LABELS = ("5", "10", "1", " 2", "none")

SPELLINGS: tuple[Any, ...] = (
    *(
        "20",
        "01",
        "007",
        " 3 ",
        "\t3",
        "3\t ",
        "+3",
        "-3",
        "-0",
        "3.",
        ".5",
        "-.5",
        "3.0",
        "3e0",
        "3E+0",
        "30e-1",
    ),
    *(
        "0.7",
        "1e-3",
        "1e1",
        "1e99",
        "1e-99",
        "1e9999",
        "1e-9999",
        "1e0005",
        "0.5",
        "1.5",
        "2.5",
        "22.5",
        "23.5",
    ),
    *(
        "",
        " ",
        ".",
        "e3",
        "1e",
        "1e+",
        "1e00005",
        "1_0",
        "0x10",
        "0b1",
        "1,5",
        "1 0",
        "--1",
        "+-1",
        "\u0663",
        "\uff13",
    ),
    *(
        "nan",
        "inf",
        "-inf",
        "Infinity",
        "1e3.5",
        "\u00a03",
        "3\n",
        "\u22123",
        "1.2.3",
        "6:00",
        "secret",
        "5 ",
        " 5",
        "2",
        " 2",
        "NONE",
        "none ",
        "9" * 401,
    ),
    *(
        "0." + "0" * 390 + "1",
        "9" * 400,
        0,
        1,
        3,
        23,
        24,
        -1,
        10,
        0.7,
        2.5,
        1e-5,
        1e21,
        5e-324,
        1.7e308,
        0.1,
        1.4,
    ),
    *(
        {"index": 0},
        {"index": 4},
        {"index": -1},
        {"index": 1 << 24},
        {"index": 0.5},
        {"index": "1"},
        {},
        None,
        True,
    ),
    *([], [1]),
)
"""Given to every domain."""


def domains() -> Iterator[Domain]:
    for end, buckets in RANGES:
        yield Domain(buckets, maximum=float(end))
    yield Domain(24)
    yield Domain(24, maximum=23.0)
    yield Domain(5, LABELS)
    yield Domain(5, LABELS, other=4)


def near_edges(domain: Domain, draw: random.Random) -> Iterator[Any]:
    """Numbers at the edges of buckets, a little beside them, and anywhere: as texts and as floats."""
    if domain.maximum is None:
        return
    with localcontext(prec=40):
        for number in range(24):
            edge = draw.randrange(domain.size + 1)
            at = Decimal(repr(domain.maximum)) * edge / domain.size
            yield f"{at:.20g}"
            yield f"{at * (1 + draw.choice((-1, 1)) * Decimal(f'1e-{draw.randrange(5, 30)}'))}"
            yield (
                float(at)
                if number % 3
                else round(draw.uniform(-0.2, 1.2) * domain.maximum, draw.randrange(9))
            )


def expected(domain: Domain, given: Any) -> int | None:
    """What the client makes of it."""
    try:
        return index_of(Index(given["index"]) if isinstance(given, dict) and given else given, domain)
    except DeviceError:
        return None


def contents() -> Iterator[tuple[str, str]]:
    """File names and texts."""
    draw, found = random.Random(7), []
    for domain in domains():
        asked = [*SPELLINGS, *near_edges(domain, draw)]
        found.append({**described(domain), "cases": [[one, expected(domain, one)] for one in asked]})
    yield "cases.json", json.dumps(found) + "\n"


def described(domain: Domain) -> dict[str, Any]:
    """As a device's definition has it."""
    return {
        "size": domain.size,
        "labels": None if domain.labels is None else list(domain.labels),
        "maximum": domain.maximum,
        "other": domain.other,
    }


if __name__ == "__main__":
    rewrite(DIRECTORY, contents())
