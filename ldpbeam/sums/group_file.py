"""A file that says which values belong to which group."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.number import exact_number
from ldpbeam.csv_rows import CsvError, CsvRows
from ldpbeam.errors import UsageError

_HEAD = ["group", "value"]


def read_groups(path: Path, domain: Domain) -> dict[str, list[int]]:
    """Values by the name of their group, in the order of the file."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise _refused(str(path), f"the groups cannot be read: {why}", "Check the path.") from None
    groups: dict[str, list[int]] = {}
    for line, name, value in _lines(text, path):
        try:
            groups.setdefault(name, []).extend(values_of(domain, value))
        except ValueError as error:
            raise _refused(
                f"{path}:{line}", f"group {name!r}: {value!r} {error}", "Write values as the domain has them."
            ) from None
    if not groups:
        raise _refused(str(path), "there is no group", "Write lines such as games,chess below group,value.")
    return groups


def shared_values(groups: Mapping[str, list[int]]) -> tuple[str, str] | None:
    """Two groups that have a value in common, None where there are none."""
    first: dict[int, str] = {}
    for name, values in groups.items():
        for value in values:
            if first.setdefault(value, name) != name:
                return first[value], name
    return None


def values_of(domain: Domain, text: str) -> list[int]:
    if domain.labels is not None:
        place = domain.place_of(text)
        if place is None:
            raise ValueError("is not one of the labels")
        return [place]
    first, dots, last = text.partition("..")
    buckets = domain.maximum is not None and not domain.whole
    try:
        begin, end = (exact_number(one) for one in (first, last if dots or buckets else first))
    except ValueError:
        raise ValueError("is no part of the domain, such as 0..60") from None
    if buckets:
        edges = begin * domain.scale, end * domain.scale
        low, high = map(round, edges)
        # A label has digits enough to tell the edges apart, and not always all of them.
        if any(
            edge != near and text.strip() != domain.edge(near)
            for edge, near, text in zip(edges, (low, high), (first, last), strict=True)
        ):
            raise ValueError(f"does not begin and end between buckets, which are {domain.edge(1)} wide")
        if not 0 <= low < high <= domain.size:
            raise ValueError(f"is no part of 0..{domain.maximum:g}")
        return list(range(low, high))
    if begin.denominator != 1 or end.denominator != 1 or not 0 <= begin <= end < domain.size:
        raise ValueError(f"does not lie in 0..{domain.size - 1}")
    return list(range(int(begin), int(end) + 1))


def _lines(text: str, path: Path) -> Iterator[tuple[int, str, str]]:
    try:
        rows = CsvRows(lambda: io.StringIO(text, newline=""))
        if [cell.strip() for cell in rows.header] != _HEAD:
            raise _refused(
                f"{path}:1", "the columns are not group,value", "Write group,value as the first line."
            )
        for line, row in rows:
            if not row[0]:
                raise _refused(f"{path}:{line}", "the group has no name", "Write a line such as games,chess.")
            yield line, row[0], row[1]
    except CsvError as error:
        raise _refused(f"{path}:{error.line}", error.why, "Write a line such as games,chess.") from None


def _refused(where: str, what: str, remedy: str) -> UsageError:
    return UsageError("E-USAGE-GROUPS", what, where=where, remedy=remedy)
