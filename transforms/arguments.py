"""Arguments of the public transforms, as people write them: collections, durations, shards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.transforms.display import DisplayDataItem

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.distinct_collections import require_distinct
from ldpbeam.collection.epochs import parse_duration, parse_instant
from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.errors import UsageError
from ldpbeam.schedule import DEFAULT_LATE_EVERY

OneCollection: TypeAlias = Collection | str | Path | Mapping[str, Any]
Collections: TypeAlias = OneCollection | Iterable[OneCollection]
"""A collection, the path of its file, or its definition; or several of these."""

MOST_SHARDS = 256


def read_collections(given: Collections) -> tuple[Collection, ...]:
    several: Iterable[Any] = ()
    if isinstance(given, Iterable) and not isinstance(given, str | bytes) and not _is_mapping(given):
        several = given
    elif given is not None:
        several = [given]
    collections = tuple(map(_collection, several))
    require_distinct(collections)
    return collections


def _is_mapping(given: Any) -> bool:
    """A dictionary, or the row that another language sends in its place."""
    return isinstance(given, Mapping) or hasattr(given, "_asdict")


def _collection(given: Any) -> Collection:
    if isinstance(given, Collection):
        return given
    if isinstance(given, str | Path):
        return load_collection(given)
    if _is_mapping(given):
        # JSON is YAML: the one parser refuses what it would refuse in a file.
        return parse_collection(json.dumps(_plain(given), default=str))
    raise TypeError(
        f"collections takes a Collection, the path of its file, or its definition, not {type(given).__name__}"
    )


def _plain(given: Any) -> Any:
    if hasattr(given, "_asdict"):
        given = {name: value for name, value in given._asdict().items() if value is not None}
    if isinstance(given, Mapping):
        return {str(name): _plain(value) for name, value in given.items()}
    return [_plain(one) for one in given] if isinstance(given, list | tuple) else given


def _refused(message: str, remedy: str) -> UsageError:
    return UsageError("E-USAGE-TRANSFORM", message, remedy=remedy)


def seconds(name: str, given: Any, *, least: int = 0) -> int:
    remedy = f'Write for example {name}="10m".'
    try:
        number = parse_duration(given) if isinstance(given, str) else given
    except ValueError as error:
        raise _refused(f"{name}: {error}", remedy) from None
    whole = isinstance(number, int | float) and not isinstance(number, bool) and float(number).is_integer()
    if not whole or number < least:
        raise _refused(f"{name} is a whole number of seconds, at least {least}, not {given!r}", remedy)
    return int(number)


def late_seconds(given: Any) -> int:
    """``late_every`` in whole seconds; None for the default."""
    return DEFAULT_LATE_EVERY if given is None else seconds("late_every", given, least=1)


def instant(name: str, given: Any) -> int | None:
    """Seconds since 1970 of an instant: text with a time zone, or a number of seconds; None for None."""
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    try:
        return parse_instant(given)
    except ValueError as error:
        raise _refused(f"{name}: {error}", f'Write for example {name}="2026-01-01T00:00:00Z".') from None


def shard_bits(shards: Any) -> int:
    if shards not in {1 << bits for bits in range(MOST_SHARDS.bit_length())} or isinstance(shards, bool):
        raise _refused(
            f"shards is a power of two from 1 to {MOST_SHARDS}, not {shards!r}", "Leave it out for 8."
        )
    return int(shards).bit_length() - 1


def fraction(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise _refused(f"{name} is from 0 to 1, not {given!r}", "Leave it out for 0.1.")
    return float(given)


def at_least_one(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise _refused(f"{name} is a whole number above 0, not {given!r}", "Leave it out for the default.")
    return given


class OfCollections(beam.PTransform):
    """A public transform: it knows its collections, and shows them where a runner shows a job."""

    def __init__(self, collections: Collections) -> None:
        super().__init__()
        self.collections = read_collections(collections)
        self.by_digest = {one.digest_hex: one for one in self.collections}

    def display_data(self) -> dict[str, Any]:
        return {"collections": DisplayDataItem(self._named(), label="Collections")}

    def annotations(self) -> dict[str, Any]:
        return {**super().annotations(), "ldpbeam_collections": self._named()}

    def _named(self) -> str:
        return " ".join(f"{one.name}@{one.version}:{one.digest_hex}" for one in self.collections)
