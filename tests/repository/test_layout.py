"""Which package may know which, read from the source and seen in a fresh interpreter."""

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

OURS = {"ldp", "transforms", "pipelines", "simulators", "tests", "benchmarks", "examples"}
MAY_IMPORT = {
    "ldp": {"ldp"},
    "simulators": {"simulators", "ldp"},  # so that they are an independent witness
    "transforms": {"transforms", "ldp"},
    "pipelines": {"pipelines", "transforms", "simulators", "ldp"},
}
# A device runs ldp.client: standard library, protobuf and ldp. `random` is standard, and no
# source of private noise.
CLIENT_MAY_IMPORT = (sys.stdlib_module_names | {"google", "ldp"}) - {"random"}
SERVER_ONLY = {"numpy", "numba", "scipy", "apache_beam", "pyarrow"}


def imports(source: str, package: str) -> Iterator[str]:
    """Dotted names imported anywhere in a module, also inside functions and by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - node.level + 1] if node.level else []
            yield ".".join([*base, *([node.module] if node.module else [])])
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in {"import_module", "__import__"}:
                yield str(node.args[0].value)


def roots(path: Path, top: Path) -> set[str]:
    package = ".".join(path.relative_to(top).parent.parts)
    return {name.partition(".")[0] for name in imports(path.read_text(), package)}


def strangers(package: str, top: Path) -> list[str]:
    """Imports of our own packages, or of Beam, that the package must not have."""
    banned = OURS - MAY_IMPORT[package] | ({"apache_beam"} if package == "ldp" else set())
    return [
        f"{path.relative_to(top)} imports {name}"
        for path in sorted((top / package).rglob("*.py"))
        for name in sorted(roots(path, top) & banned)
    ]


def client_strangers(top: Path) -> list[str]:
    return [
        f"{path.relative_to(top)} imports {name}"
        for path in sorted((top / "ldp" / "client").rglob("*.py"))
        for name in sorted(roots(path, top) - CLIENT_MAY_IMPORT)
    ]


def misplaced_inits(top: Path) -> list[str]:
    """proto/__init__.py would shadow proto-plus, tests/ldp/__init__.py the real ldp."""
    found = [path for name in ("proto", "tests") for path in (top / name).rglob("__init__.py")]
    return [str(path.relative_to(top)) for path in found]


def loaded_by(module: str, top: Path) -> set[str]:
    """Top-level modules that a fresh interpreter has after the import and had not before."""
    code = (
        "import sys, json; before = set(sys.modules); sys.path.insert(0, sys.argv[2]);"
        "__import__(sys.argv[1]);"
        "print(json.dumps(sorted({m.partition('.')[0] for m in set(sys.modules) - before})))"
    )
    command = [sys.executable, "-c", code, module, str(top)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def packages() -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return [name.rstrip("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]]


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_what_it_may(package: str) -> None:
    assert strangers(package, REPOSITORY) == []


def test_the_client_imports_the_standard_library_protobuf_and_ldp() -> None:
    assert client_strangers(REPOSITORY) == []


def test_a_protocol_loads_no_server_library() -> None:
    assert loaded_by("ldp.protocols", REPOSITORY) & SERVER_ONLY == set()


def test_the_client_loads_nothing_but_the_standard_library_and_protobuf() -> None:
    allowed = sys.stdlib_module_names | {"google", "ldp"}
    assert loaded_by("ldp.client", REPOSITORY) - allowed == set()


def test_installed_packages_are_the_four_and_exist() -> None:
    assert packages() == ["ldp", "transforms", "pipelines", "simulators"]
    for name in packages():
        assert (REPOSITORY / name / "__init__.py").is_file(), name
        assert (REPOSITORY / name / "py.typed").is_file(), name


def test_no_init_where_it_would_shadow() -> None:
    assert misplaced_inits(REPOSITORY) == []


# --- the checkers can fail


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    for name in ("ldp/client", "simulators", "transforms", "pipelines", "proto", "tests/ldp"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("ldp", "import apache_beam as beam"),
        ("ldp", "def f():\n    from apache_beam.transforms import window"),
        ("ldp", "import importlib\nimportlib.import_module('pipelines.main')"),
        ("ldp", "from transforms import reports"),
        ("simulators", "from transforms.reports import Decode"),
        ("transforms", "import pipelines.main"),
        ("transforms", "from simulators import devices"),
        ("pipelines", "from tests.conftest import REPOSITORY"),
    ],
)
def test_a_forbidden_import_is_seen(planted: Path, package: str, source: str) -> None:
    (planted / package / "bad.py").write_text(source)
    assert len(strangers(package, planted)) == 1


def test_a_permitted_import_is_not(planted: Path) -> None:
    (planted / "transforms" / "good.py").write_text("import apache_beam\nfrom ldp import domain\n")
    (planted / "ldp" / "good.py").write_text("from .errors import A\nimport numpy\n")
    assert strangers("transforms", planted) + strangers("ldp", planted) == []


@pytest.mark.parametrize("name", ["numpy", "random", "yaml", "simulators"])
def test_a_client_that_imports_more_is_seen(planted: Path, name: str) -> None:
    (planted / "ldp" / "client" / "bad.py").write_text(f"def f():\n    import {name}\n")
    assert client_strangers(planted) == [f"ldp/client/bad.py imports {name}"]


def test_relative_imports_are_resolved() -> None:
    source = "from . import a\nfrom ..b import c\nfrom .d import e"
    assert list(imports(source, "ldp.client")) == ["ldp.client", "ldp.b", "ldp.client.d"]


def test_a_loaded_server_library_is_seen(planted: Path) -> None:
    (planted / "device.py").write_text("import numpy")
    assert "numpy" in loaded_by("device", planted)


@pytest.mark.parametrize("name", ["proto/__init__.py", "tests/ldp/__init__.py"])
def test_a_misplaced_init_is_seen(planted: Path, name: str) -> None:
    (planted / name).touch()
    assert misplaced_inits(planted) == [name]
