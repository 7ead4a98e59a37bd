"""Kernels are plain loops."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.conftest import REPOSITORY

COMPILED = {"kernel", "inlined", "copied"}
LINES = 60

MODULES = sorted(
    path
    for folder in ("ldpbeam", "transforms", "pipelines", "simulators", "benchmarks")
    for path in (REPOSITORY / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)


def kernels(source: str) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and {ast.unparse(d) for d in node.decorator_list} & COMPILED:
            yield node


def tricks(source: str) -> list[str]:
    """What of a module reaches into the compiler, or lets it change results."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.keyword):
            names = [node.arg or ""]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if node.value == "fastmath" else []
        reaching = ("llvmlite", "numba.extending", "numba.core.cgutils", "numba.core.types", "fastmath")
        found += [name for name in names if name.startswith(reaching)]
    return found


@pytest.mark.thorough
def test_no_module_reaches_into_the_compiler() -> None:
    assert len(MODULES) > 300
    found = {str(path.relative_to(REPOSITORY)): tricks(path.read_text("utf-8")) for path in MODULES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.thorough
def test_kernels_are_short() -> None:
    lengths = {
        node.name: (node.end_lineno or 0) - node.lineno + 1
        for path in MODULES
        for node in kernels(path.read_text("utf-8"))
    }
    assert len(lengths) > 50
    assert {name: length for name, length in lengths.items() if length > LINES} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from llvmlite import ir",
        "def f():\n    import llvmlite.ir",
        "from numba.extending import intrinsic",
        "from numba.core import cgutils, types",
        "numba.njit(fastmath=True)",
        "_OPTIONS = {'fastmath': True}",
    ],
)
def test_the_search_finds_what_it_is_for(source: str) -> None:
    assert tricks(source)
