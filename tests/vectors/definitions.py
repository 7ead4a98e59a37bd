"""Writes the device definitions that belong to the vectors: ``python -m tests.vectors.definitions``.

One file per vector file, of the same name: what ``ldpbeam definition`` prints of a collection with the
vector's protocol. Devices in other languages build their protocols from these and replay the vectors.
Composites, and the collection of docs/wire.md, have no vector file and come last.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.file import load_collection
from ldpbeam.protocols import Parameters
from tests.conftest import REPOSITORY
from tests.reference.settings import hash_families
from tests.vectors.generate import name_of

DIRECTORY = Path(__file__).parent / "definitions"
EPOCHS = Epochs(3600, 1_767_225_600, 1000)
TWO_LEVELS = Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)


def collections() -> Iterator[tuple[str, Collection]]:
    """File names without their ending, and collections."""
    for setting in hash_families():
        name, domain = name_of(setting), Domain(setting.domain_size)
        yield name, Collection(name, 1, domain, setting.name, setting.parameters, EPOCHS)
    yield "sample_loloha", _several("sample", "loloha", (7, 300, 5), TWO_LEVELS)
    yield "split_l_osue", _several("split", "l_osue", (7, 11), TWO_LEVELS)
    yield "allomfree", _several("allomfree", "", (7, 300), TWO_LEVELS)
    counters = Parameters(epsilon_longitudinal=1.0, gamma=0.2)
    yield "together_one_bit_rrpm", _several("together", "one_bit_rrpm", (9, 9, 9), counters)
    yield "minutes_in_app", load_collection(REPOSITORY / "examples" / "minutes_in_app.yaml")


def _several(allocation: str, name: str, sizes: tuple[int, ...], parameters: Parameters) -> Collection:
    attributes = tuple(Attribute(f"a{i}", Domain(size)) for i, size in enumerate(sizes))
    title = f"{allocation}-{name or 'chosen'}"
    return Collection(title, 1, None, name, parameters, EPOCHS, attributes=attributes, allocation=allocation)


def contents() -> Iterator[tuple[str, str]]:
    """File names and texts."""
    for name, agreed in collections():
        yield f"{name}.json", device_definition_text(agreed)


def main() -> None:
    """Write every file, and remove those of protocols that are gone."""
    DIRECTORY.mkdir(exist_ok=True)
    written = dict(contents())
    for path in DIRECTORY.glob("*.json"):
        if path.name not in written:
            path.unlink()
    for name, text in written.items():
        (DIRECTORY / name).write_text(text, "ascii")


if __name__ == "__main__":
    main()
