"""Which columns of a table are those of reports, and what to say where they are not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from ldpbeam.text import clean

from .arrow_columns import is_bytes, is_number, is_text

COLUMNS = ("digest", "epoch", "report_id", "payload")
"""The columns of a report."""

_ID = "an integer, a DECIMAL of up to 38 digits without a fraction, or decimal digits as text"
_WANTED = {
    "digest": f"the collection's digest as {_ID}",
    "epoch": f"the index of the epoch as {_ID}",
    "report_id": _ID,
    "payload": "the bytes of the payload (BYTE_ARRAY without a type of text)",
}
"""What each column must be."""
_IN_FOLDERS = {"digest": (-(1 << 63), (1 << 64) - 1), "epoch": (-(1 << 63), (1 << 63) - 1)}
"""Columns that a folder's name may hold in place of a file, and the numbers that they may be."""
_NUMBER = re.compile(r"-?[0-9]{1,20}")
_LONGEST = 40  # characters of a type that are quoted


@dataclass(frozen=True)
class Layout:
    leaves: Mapping[str, int]
    shared: Mapping[str, int]
    lengths: frozenset[str]


class WrongColumns(Exception):  # noqa: N818 - a signal inside these modules
    """The columns are not those of reports; the text is a sentence about each that is not."""


def in_folders(path: str) -> dict[str, str]:
    """Values of our columns in the names of the folders of a path, ``epoch=3``; of two, the inner one's."""
    values: dict[str, str] = {}
    for folder in path.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals and name in _IN_FOLDERS:
            values[name] = unquote(value)
    return values


def layout_of(schema: Any, arrow_schema: Any, folders: Mapping[str, str]) -> Layout:
    leaves: dict[str, int] = {}
    shared: dict[str, int] = {}
    faults: list[str] = []
    paths = [schema.column(i).path for i in range(len(schema))]
    names = arrow_schema.names
    for name in COLUMNS:
        if name in names:
            fault = _fault(name, names, paths, arrow_schema, schema)
            leaves[name] = paths.index(name) if name in paths else -1
        elif name in folders:
            fault, number = _from_folder(name, folders[name])
            shared[name] = number
        else:
            fault = f"there is no column {name}; it must be {_WANTED[name]}"
        if fault:
            faults.append(fault)
    if faults:
        raise WrongColumns(f"The table is sound, but {'; '.join(faults)}.")
    lengths = {name for name, leaf in leaves.items() if schema.column(leaf).physical_type == "BYTE_ARRAY"}
    return Layout(leaves, shared, frozenset(lengths))


def _fault(name: str, names: list[str], paths: list[str], arrow_schema: Any, schema: Any) -> str:
    """The fault of a column that is there; nothing if it is sound."""
    if names.count(name) > 1 or paths.count(name) > 1:
        return f"the column {name} is there {names.count(name)} times; it must be there once"
    kind = arrow_schema.field(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    sound = is_bytes(kind) if name == "payload" else is_number(kind) or is_text(kind)
    if not sound or name not in paths:
        return f"the column {name} is {_called(kind)}; it must be {_WANTED[name]}"
    leaf = schema.column(paths.index(name))
    if leaf.max_repetition_level or leaf.max_definition_level > 1:
        return f"the column {name} is nested; it must be {_WANTED[name]}"
    return ""


def _called(kind: Any) -> str:
    """A type in a few words, without the names of fields inside it."""
    if pa.types.is_nested(kind):
        nested = {"struct": "a struct", "map": "a map"}
        return next((words for begin, words in nested.items() if str(kind).startswith(begin)), "a list")
    return clean(str(kind), _LONGEST)


def _from_folder(name: str, value: str) -> tuple[str, int]:
    """The fault of a number in a folder's name, or nothing; and the number."""
    number = int(value) if _NUMBER.fullmatch(value) else None
    low, high = _IN_FOLDERS[name]
    if number is None or not low <= number <= high:
        return (
            f"there is no column {name}, and the folder's name does not say {name}=NUMBER in decimal digits",
            0,
        )
    return "", number
