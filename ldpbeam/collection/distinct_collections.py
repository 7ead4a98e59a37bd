"""Collections that are counted together must be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ldpbeam.errors import UsageError

if TYPE_CHECKING:  # the command line comes by here before it needs protobuf
    from ldpbeam.collection.collection import Collection


def require_distinct(collections: Sequence[Collection]) -> None:
    """Refuse what reports cannot be told apart by."""
    if not collections:
        raise UsageError(
            "E-USAGE-COLLECTION",
            "no collection was given",
            remedy="Name at least one; on the command line with --collection FILE, once per collection.",
        )
    seen: dict[int, str] = {}
    for collection in collections:
        if collection.digest in seen:
            raise UsageError(
                "E-USAGE-COLLECTION",
                f"collection {collection.name!r} (digest {collection.digest_hex}) was given twice",
                remedy="Give each collection once.",
            )
        seen[collection.digest] = collection.name
    versions: dict[tuple[str, int], str] = {}
    for collection in collections:
        other = versions.setdefault((collection.name, collection.version), collection.digest_hex)
        if other != collection.digest_hex:
            raise UsageError(
                "E-USAGE-COLLECTION",
                f"two collections are called {collection.name!r} version {collection.version} "
                f"(digests {other} and {collection.digest_hex})",
                remedy="Raise version in the file that was changed.",
            )


def by_wire_digest(collections: Iterable[Collection]) -> dict[int, Collection]:
    """The collection of every digest that a report can carry: those of collections and of their slices."""
    known: dict[int, Collection] = {}
    for collection in collections:
        known |= dict.fromkeys((collection.digest, *collection.said_digests), collection)
    return known
