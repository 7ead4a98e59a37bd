"""Public functions say what their parameters are, in the rooms that users and their programs call first."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.conftest import REPOSITORY

PARAMETERS = 3
ROOMS = {
    "ldpbeam": (
        ".",
        "channels",
        "client",
        "collection",
        "collector",
        "consistency",
        "durable",
        "estimation",
        "hashing",
        "host",
        "job",
        "over_time",
        "privacy",
        "promise",
        "shuffling",
        "sums",
        "wire",
    ),
    "transforms": (".", "sources", "sinks"),
    "pipelines": (".",),
    "simulators": (".", "deliver", "population"),
}
"""Folders whose modules are complete; ``.`` for those directly in it."""
SECTION = "Args:"


def modules() -> list[str]:
    return [
        ".".join(("ldpbeam", *path.relative_to(REPOSITORY).with_suffix("").parts[top == "ldpbeam" :]))
        for top, rooms in ROOMS.items()
        for room in rooms
        for path in sorted((REPOSITORY / top / room).glob("*.py"))
        if not path.stem.startswith("_") and not path.stem.endswith("_pb2")
    ]


def public_functions(holder: Any, module: str) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Name, function, and whether a base class documents its parameters."""
    for name, one in vars(holder).items():
        plain = inspect.unwrap(one.__func__ if isinstance(one, (classmethod, staticmethod)) else one)
        if name.startswith("_") or getattr(plain, "__module__", module) != module:
            continue
        if inspect.isclass(one):
            for inner, function, by_base in public_functions(one, module):
                yield f"{name}.{inner}", function, by_base
        elif inspect.isfunction(plain):
            bases = inspect.getmro(holder)[1:] if inspect.isclass(holder) else ()
            yield name, plain, any(SECTION in (getattr(base, name, None).__doc__ or "") for base in bases)


def documented_parameters(function: Callable[..., Any]) -> list[str]:
    """Those that a caller gives: not ``self``, and not what Beam puts in."""
    return [
        name
        for name, one in inspect.signature(function).parameters.items()
        if name not in ("self", "cls") and not type(one.default).__module__.startswith("apache_beam")
    ]


def undocumented(holder: Any, module: str) -> list[str]:
    """Functions with so many parameters whose docstring has no section about them."""
    return [
        name
        for name, function, by_base in public_functions(holder, module)
        if len(documented_parameters(function)) >= PARAMETERS
        and SECTION not in (function.__doc__ or "")
        and not by_base
    ]


@pytest.mark.parametrize("name", modules())
def test_public_functions_document_their_parameters(name: str) -> None:
    assert undocumented(import_module(name), name) == []


def test_the_rooms_are_there() -> None:
    assert len(modules()) > 90
    assert {"ldpbeam.epoch_result", "ldpbeam.client.device", "ldpbeam.transforms.admit"} <= set(modules())


class Base:
    def overridden(self, a: int, b: int, c: int) -> None:
        """Args: are in the base."""


class Sample(Base):
    def overridden(self, a: int, b: int, c: int) -> None:
        """Nothing."""

    def two(self, a: int, b: int) -> None:
        """Nothing."""

    @classmethod
    def three(cls, a: int, b: int, c: int) -> None:
        """Nothing."""


def test_the_search_finds_what_it_is_for() -> None:
    assert undocumented(Sample, __name__) == ["three"]
