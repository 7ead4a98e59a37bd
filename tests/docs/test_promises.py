"""docs/promises.md lists the public names: none is missing, and none of the code has gone or been turned."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import pytest

import ldpbeam
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "promises.md").read_text("utf-8")
MODULES = ("ldpbeam", "ldpbeam.transforms", "ldpbeam.over_time", "ldpbeam.planning")


def listed(page: str) -> dict[str, dict[str, list[str] | None]]:
    """By the place of a name: each name, and its arguments where the page gives them."""
    block = re.findall(r"## Public names.*?```text\n(.*?)```", page, re.DOTALL)[0]
    found: dict[str, dict[str, list[str] | None]] = {}
    for line in re.sub(r"\n {6}", " ", block).splitlines():
        if not line.startswith(" "):
            names = found.setdefault(line, {})
            continue
        parts = re.fullmatch(r" +(\w+)(?:\((.*)\))?", line)
        assert parts, line
        names[parts[1]] = None if parts[2] is None else re.findall(r"\w+", parts[2])
    return found


def home(place: str) -> Any:
    if place in MODULES:
        return import_module(place)
    module, _, name = place.rpartition(".")
    return getattr(import_module(module), name)


def arguments(thing: Any) -> list[str]:
    public = (name for name in inspect.signature(thing).parameters if not name.startswith("_"))
    return [name for name in public if name != "self"]


def broken(promised: dict[str, dict[str, list[str] | None]]) -> list[str]:
    """What is promised and not so."""
    found = []
    for place, names in promised.items():
        for name, wanted in names.items():
            if not hasattr(home(place), name):
                found.append(f"{place}.{name} is not there")
            elif wanted is not None and arguments(getattr(home(place), name))[: len(wanted)] != wanted:
                found.append(f"{place}.{name} takes {arguments(getattr(home(place), name))}")
    return found


def test_what_is_promised_is_there() -> None:
    assert broken(listed(PAGE)) == []


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_promised(module: str) -> None:
    assert sorted(listed(PAGE)[module]) == sorted(home(module).__all__)


def test_every_function_is_promised_with_its_arguments() -> None:
    names = [name for name, wanted in listed(PAGE)["ldpbeam"].items() if wanted]
    functions = [name for name in ldpbeam.__all__ if inspect.isfunction(getattr(ldpbeam, name))]
    assert set(functions) <= set(names)


def test_every_public_method_of_a_device_is_promised() -> None:
    methods = {name for name in vars(ldpbeam.Device) if not name.startswith("_")}
    assert methods == set(listed(PAGE)["ldpbeam.Device"])
