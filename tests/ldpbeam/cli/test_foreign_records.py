"""run.json of somebody else: whatever stands in it, a command ends at once, in one line, and never hangs."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ldpbeam
from ldpbeam.collection.record import collection_of, definition
from ldpbeam.errors import CollectionError

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**63,
    10**400,
    1e308,
    float("inf"),
    float("nan"),
    3.5,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
    {"a": 1},
    ["a", "a"],
)
"""What takes the place of each part of a record; besides it is left out."""
SECONDS = 1.0
"""A foreign record is answered within that."""

EXAMPLES = sorted(Path("examples").glob("*.yaml"))


def places(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every part of a JSON document; of long lists of the first three."""
    if place:
        yield place
    if isinstance(tree, dict):
        for key in tree:
            yield from places(tree[key], (*place, key))
    elif isinstance(tree, list):
        for index in range(min(3, len(tree))):
            yield from places(tree[index], (*place, index))


def changed(tree: Any, place: tuple[Any, ...], odd: Any, *, without: bool = False) -> Any:
    """A document with something else in one place."""
    made = copy.deepcopy(tree)
    at = made
    for key in place[:-1]:
        at = at[key]
    if without:
        del at[place[-1]]
    else:
        at[place[-1]] = odd
    return made


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_definition_is_read_or_refused_whatever_stands_in_it(path: Path) -> None:
    sound = json.loads(json.dumps(definition(ldpbeam.load_collection(path))))
    assert collection_of(sound) == ldpbeam.load_collection(path)
    refused = 0
    for place in places(sound):
        for number, odd in enumerate((*ODD, None)):
            mutant = changed(sound, place, odd, without=number == len(ODD))
            begin = time.process_time()
            try:
                collection_of(mutant)
            except CollectionError as error:
                assert "\n" not in str(error)
                refused += 1
            assert time.process_time() - begin < SECONDS, (place, odd)
    assert refused > 100


def test_a_table_of_hashing_that_would_never_end_is_refused() -> None:
    sound = definition(ldpbeam.load_collection(Path("examples/minutes_in_app.yaml")))
    for g in (2**63, 2**61 - 1, (1 << 16) + 1, 1):
        with pytest.raises(CollectionError, match=r"g is outside its limits|digest"):
            collection_of(changed(sound, ("parameters", "g"), g))
