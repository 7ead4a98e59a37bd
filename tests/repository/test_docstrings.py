"""Public functions say what their parameters are, and what they raise."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import pytest

from tests.conftest import REPOSITORY

PARAMETERS = 3
ROOMS = {
    "ldpbeam": (
        ".",
        "audit",
        "audit/checks",
        "audit/client",
        "audit/law",
        "channels",
        "cli/shared",
        "client",
        "collection",
        "collector",
        "consistency",
        "durable",
        "engine",
        "engine/sources",
        "engine/storage",
        "estimation",
        "hashing",
        "host",
        "job",
        "kernels",
        "over_time",
        "planning",
        "privacy",
        "promise",
        "protocols",
        "protocols/attributes",
        "records",
        "report_page",
        "shuffling",
        "sums",
        "wire",
    ),
    "transforms": (".", "sinks", "sources", "stages", "stateful"),
    "pipelines": (".",),
    "simulators": (".", "deliver", "population"),
}
"""Folders whose modules are complete; ``.`` for those directly in it."""
PARAMETER = r"^ +([*\w]+, )*\**{}(, [*\w]+)*:(\s|$)"
"""A line of a section about one or several of them."""
OF_A_BASE = re.compile(r"^ *(Args:$|:param )", re.MULTILINE)
"""A section as we write it, or as libraries do."""
ERRORS = re.compile(r"\b[Rr]aises?(:$| as\b| `*[A-Z]\w+)", re.MULTILINE)
"""A section, or a sentence such as *Raises ValueError where …* and *Raise ValueError unless …*."""


def modules() -> list[str]:
    paths = [
        path
        for top, rooms in ROOMS.items()
        for room in rooms
        for path in sorted((REPOSITORY / top / room).glob("*.py"))
        if path.stem == "__init__" or not (path.stem.startswith("_") or path.stem.endswith("_pb2"))
    ]
    return [module_name(path.relative_to(REPOSITORY)) for path in paths]


def module_name(path: PurePath) -> str:
    """``transforms/sinks/__init__.py`` is ldpbeam.transforms.sinks."""
    parts = [part for part in path.with_suffix("").parts if part not in ("ldpbeam", "__init__")]
    return ".".join(("ldpbeam", *parts))


def of_attribute(one: Any) -> Any:
    """The plain function behind a property, or behind what wraps it: class methods, caches, compilers."""
    if isinstance(one, property):
        return one.fget
    if isinstance(one, functools.cached_property):
        return one.func
    return inspect.unwrap(one)


def public_functions(holder: Any, module: str) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Name, function, and the docstrings that base classes give to a method of this name.

    A property counts as a function; so does ``__post_init__`` where it has a docstring.
    """
    for name, one in list(vars(holder).items()):
        plain = of_attribute(one)
        checks = name == "__post_init__" and plain.__doc__
        if (name.startswith("_") and not checks) or getattr(plain, "__module__", module) != module:
            continue
        if inspect.isclass(one):
            for inner, function, inherited in public_functions(one, module):
                yield f"{name}.{inner}", function, inherited
        elif inspect.isfunction(plain):
            holders = inspect.getmro(holder) if inspect.isclass(holder) else ()
            yield name, plain, "\n".join(getattr(base, name, None).__doc__ or "" for base in holders[1:])


def documented_parameters(function: Callable[..., Any]) -> list[str]:
    """Those that a caller gives: not ``self``, and not what Beam puts in."""
    return [
        name
        for name, one in inspect.signature(function).parameters.items()
        if name not in ("self", "cls") and not type(one.default).__module__.startswith("apache_beam")
    ]


def without_parameters(holder: Any, module: str) -> list[str]:
    """Parameters that a docstring says nothing about, of functions that have so many."""
    return [
        f"{name}: {parameter}"
        for name, function, inherited in public_functions(holder, module)
        if len(parameters := documented_parameters(function)) >= PARAMETERS
        and not OF_A_BASE.search(inherited)
        for parameter in parameters
        if not re.search(PARAMETER.format(parameter), function.__doc__ or "", re.MULTILINE)
    ]


def raises(definition: ast.AST) -> bool:
    """Whether it makes an error itself: not in a function within it, and not one that it caught."""
    for node in ast.iter_child_nodes(definition):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            made = node.exc.func
            if not (isinstance(made, ast.Name) and made.id == "NotImplementedError"):
                return True
        if raises(node):
            return True
    return False


def raising_lines(source: str) -> set[int]:
    """The first lines of functions that make an error, counted as Python counts: with decorators."""
    return {
        min(part.lineno for part in (node, *node.decorator_list))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and raises(node)
    }


def without_errors(holder: Any, module: str, source: str) -> list[str]:
    """Functions that make an error of which their docstring says nothing."""
    lines = raising_lines(source)
    return [
        name
        for name, function, inherited in public_functions(holder, module)
        if function.__code__.co_firstlineno in lines and not ERRORS.search(f"{function.__doc__}\n{inherited}")
    ]


@pytest.mark.parametrize("name", modules())
@pytest.mark.thorough
def test_public_functions_document_their_parameters(name: str) -> None:
    assert without_parameters(import_module(name), name) == []


@pytest.mark.parametrize("name", modules())
@pytest.mark.thorough
def test_public_functions_document_their_errors(name: str) -> None:
    module = import_module(name)
    assert without_errors(module, name, inspect.getsource(module)) == []


def test_the_rooms_are_there() -> None:
    names = set(modules())
    assert len(names) > 250
    assert {"ldpbeam.epoch_result", "ldpbeam.client.device", "ldpbeam.transforms.sinks"} <= names


class Base:
    def overridden(self, a: int, b: int, c: int) -> None:
        """Raises ValueError always.

        Args:
            a, b: nothing.
            c: nothing.
        """


class Sample(Base):
    def __post_init__(self) -> None:
        """Nothing."""
        raise ValueError("always")

    def overridden(self, a: int, b: int, c: int) -> None:
        """Nothing."""
        raise ValueError("always")

    def two(self, a: int, b: int) -> None:
        """Raises nothing of its own."""
        try:
            self.three(a, b, 0)
        except ValueError as fault:
            fault.add_note("caught")
            raise

    @classmethod
    @functools.cache
    def three(cls, a: int, b: int, *c: int) -> None:
        """b: stands outside the section.

        Args:
            a: nothing.
        """
        if a:
            raise ValueError("a")

    @property
    def raising(self) -> int:
        """Nothing."""
        raise KeyError(self)

    @functools.cached_property
    def raising_once(self) -> int:
        """Nothing."""
        raise KeyError(self)

    @staticmethod
    def of_library(a: int, b: int) -> None:
        """Raise the level."""
        if a:
            raise re.error("a")

    @property
    def nested(self) -> Callable[[], None]:
        """Nothing."""

        def later() -> None:
            raise KeyError(self)

        return later

    def to_come(self) -> None:
        """Nothing."""
        raise NotImplementedError("to come")


def test_the_search_finds_what_it_is_for() -> None:
    assert without_parameters(Sample, __name__) == ["three: b", "three: c"]
    source = Path(__file__).read_text("utf-8")
    assert without_errors(Sample, __name__, source) == [
        "__post_init__",
        "three",
        "raising",
        "raising_once",
        "of_library",
    ]
