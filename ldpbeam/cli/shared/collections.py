"""Collections of a command: read from their files, with warnings, and introduced in a line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ldpbeam.cli.shared.console import complain
from ldpbeam.collection.advice import Advice, warnings_about
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection
from ldpbeam.promise.statements import in_short


def load(path: Path) -> Collection:
    """A collection, with a warning about keys that its protocol does not take."""
    collection = load_collection(path)
    for key in collection.ignored:
        text = (
            f"{path}: {key} has no effect on {collection.protocol_label}. Remove it, or choose a "
            "protocol that takes it. [W-COLLECTION-IGNORED]"
        )
        complain(text)
    warn(path, warnings_about(collection))
    return collection


def warn(path: Path, advice: Iterable[Advice]) -> None:
    for warning in advice:
        complain(warning.in_file(str(path)))


def introduction(collection: Collection) -> str:
    """One line on what is collected; never a bare ε."""
    levels = in_short(collection.promise)
    sizes = " + ".join(f"{domain.size:,}" for _, domain in collection.histograms)
    return (
        f"{collection.name} version {collection.version}: {collection.protocol_label}, "
        f"{collection.domain or f'{sizes} values'}, {levels}"
    )
