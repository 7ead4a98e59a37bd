"""Writes the device definitions of the vectors' collections: ``python -m tests.vectors.definitions``.

What ``ldpbeam definition`` prints of each. Those with the name of a vector file belong to it, and to the
derived vectors of that name: devices in other languages build their protocols from these and replay both.
Some more, for what no vector has: attributes of different sizes, and the collection of docs/wire.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.file import load_collection
from tests.conftest import REPOSITORY
from tests.vectors import derived
from tests.vectors.writing import rewrite

DIRECTORY = Path(__file__).parent / "definitions"


def collections() -> Iterator[tuple[str, Collection]]:
    """File names without their ending, and collections."""
    yield from derived.collections()
    yield "minutes_in_app", load_collection(REPOSITORY / "examples" / "minutes_in_app.yaml")
    for allocation, protocol, sizes in (("sample", "loloha", (7, 300, 5)), ("allomfree", "", (7, 300))):
        attributes = tuple(Attribute(f"a{i}", Domain(size)) for i, size in enumerate(sizes))
        epochs = Epochs(3600, 1_767_225_600, 1000)
        agreed = Collection(
            allocation,
            1,
            None,
            protocol,
            derived.LEVELS,
            epochs,
            attributes=attributes,
            allocation=allocation,
        )
        yield f"{allocation}_of_different_sizes", agreed


def contents() -> Iterator[tuple[str, str]]:
    """File names and texts."""
    for name, agreed in collections():
        yield f"{name}.json", device_definition_text(agreed)


if __name__ == "__main__":
    rewrite(DIRECTORY, contents())
