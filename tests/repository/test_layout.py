"""Which package may know which, read from the source and seen in a fresh interpreter."""

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import LONGEST_FIRST, REPOSITORY

LINKED = ("transforms", "pipelines", "simulators")
"""Folders of the repository that are packages of ldpbeam: links in ldpbeam/ lead to them."""
OURS = {"ldpbeam", *LINKED, "tests", "benchmarks", "examples"}
MAY_IMPORT = {
    "ldpbeam": {"ldpbeam"},
    "simulators": {"simulators", "ldpbeam"},  # so that they are an independent witness
    "transforms": {"transforms", "ldpbeam"},
    "pipelines": {"pipelines", "transforms", "simulators", "ldpbeam"},
}
FRONT_DOOR = ("ldpbeam/__init__.py", "ldpbeam/__main__.py")
"""What people import and run: these two know everything, and load nothing that is not asked for."""
# A device runs ldpbeam.client: standard library, protobuf and the core. `random` is standard, and no
# source of private noise.
CLIENT_MAY_IMPORT = (sys.stdlib_module_names | {"google", "ldpbeam"}) - {"random"}
MAY_SET = {
    "pipelines/workers.py sets worker_handlers.DATA_BUFFER_TIME_LIMIT_MS",  # docs/decisions/0021
    "ldpbeam/kernels/jit.py sets config.CACHE_DIR",  # while one kernel is made: docs/decisions/0014
}
"""Names of other libraries that ours sets, none of them for speed (docs/decisions/0041)."""
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
    """The packages that a module imports from; of ldpbeam, the folder of the repository."""
    package = ".".join(path.relative_to(top).parent.parts)
    if package.partition(".")[0] in LINKED:
        package = f"ldpbeam.{package}"
    return {root(name) for name in imports(path.read_text(), package)}


def root(name: str) -> str:
    """A linked folder by its own name is nobody's: installed, there is none."""
    first, _, rest = name.partition(".")
    below = rest.partition(".")[0]
    if first in LINKED:
        return f"{first} without ldpbeam"
    return below if first == "ldpbeam" and below in LINKED else first


def modules(folder: Path) -> list[Path]:
    """Its own modules, not those behind links."""
    return sorted(
        path
        for path in folder.rglob("*.py")
        if not any(parent.is_symlink() for parent in path.parents if folder in parent.parents)
    )


def strangers(package: str, top: Path) -> list[str]:
    """Imports of our own packages, or of Beam, that the package must not have."""
    banned = OURS - MAY_IMPORT[package] | {f"{name} without ldpbeam" for name in LINKED}
    if package == "ldpbeam":
        banned |= {"apache_beam"}
    return [
        f"{path.relative_to(top)} imports {name}"
        for path in modules(top / package)
        for name in sorted(roots(path, top) & banned - doors(path, top))
    ]


def doors(path: Path, top: Path) -> set[str]:
    """Packages of ours that a module may know besides, because it is the front door."""
    return set(LINKED) if path.relative_to(top).as_posix() in FRONT_DOOR else set()


def client_strangers(top: Path) -> list[str]:
    return [
        f"{path.relative_to(top)} imports {name}"
        for path in modules(top / "ldpbeam" / "client")
        for name in sorted(roots(path, top) - CLIENT_MAY_IMPORT)
    ]


def set_names(source: str) -> Iterator[str]:
    """Dotted names that a module sets, itself or by setattr, below what it imports from outside ldpbeam."""
    tree = ast.parse(source)
    foreign = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            foreign |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module not in {None, "__future__"}:
            foreign |= {a.asname or a.name for a in node.names}
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            foreign -= {a.asname or a.name for a in node.names if is_ours(node, a.name)}
    foreign -= {"os", "sys"}  # environment and arguments are the process's
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            target: ast.expr = node
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            target = ast.Attribute(node.args[0], ast.unparse(node.args[1]))
        else:
            continue
        below = target
        while isinstance(below, (ast.Attribute, ast.Subscript)):
            below = below.value
        if isinstance(below, ast.Name) and below.id in foreign:
            yield ast.unparse(target)


def is_ours(node: ast.Import | ast.ImportFrom, name: str) -> bool:
    """Whether an import is of a part of ldpbeam."""
    whole = name if isinstance(node, ast.Import) else str(node.module)
    return whole.partition(".")[0] == "ldpbeam"


def patches(top: Path) -> set[str]:
    """Where the product sets a name of another library."""
    return {
        f"{path.relative_to(top)} sets {name}"
        for package in MAY_IMPORT
        for path in modules(top / package)
        for name in set_names(path.read_text())
    }


def misplaced_inits(top: Path) -> list[str]:
    """proto/__init__.py would shadow proto-plus, tests/ldpbeam/__init__.py the real one."""
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
    assert loaded_by("ldpbeam.protocols", REPOSITORY) & SERVER_ONLY == set()


def test_the_client_loads_nothing_but_the_standard_library_and_protobuf() -> None:
    allowed = sys.stdlib_module_names | {"google", "ldpbeam"}
    assert loaded_by("ldpbeam.client", REPOSITORY) - allowed == set()


def test_the_front_door_loads_nothing_but_the_standard_library() -> None:
    assert loaded_by("ldpbeam", REPOSITORY) - sys.stdlib_module_names == {"ldpbeam"}


def test_one_package_is_installed_and_holds_the_linked_folders() -> None:
    assert packages() == ["ldpbeam"]
    for name in ("ldpbeam", *LINKED):
        assert (REPOSITORY / name / "__init__.py").is_file(), name
        assert (REPOSITORY / name / "py.typed").is_file(), name
    links = {path.name: path.readlink() for path in (REPOSITORY / "ldpbeam").iterdir() if path.is_symlink()}
    assert links == {name: Path("..", name) for name in LINKED}


def test_no_name_of_another_library_is_set_but_those_that_decisions_name() -> None:
    assert patches(REPOSITORY) == MAY_SET


def test_no_init_where_it_would_shadow() -> None:
    assert misplaced_inits(REPOSITORY) == []


# --- the checkers can fail


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    for name in ("ldpbeam/client", "simulators", "transforms", "pipelines", "proto", "tests/ldpbeam"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("ldpbeam", "import apache_beam as beam"),
        ("ldpbeam", "def f():\n    from apache_beam.transforms import window"),
        ("ldpbeam", "import importlib\nimportlib.import_module('ldpbeam.cli.main')"),
        ("ldpbeam", "from ldpbeam.transforms import stages"),
        ("simulators", "from ldpbeam.transforms.stages.reports import Decode"),
        ("transforms", "import ldpbeam.cli.main"),
        ("transforms", "from ldpbeam.simulators import devices"),
        ("pipelines", "from tests.conftest import REPOSITORY"),
        ("pipelines", "from transforms import stages"),
    ],
)
def test_a_forbidden_import_is_seen(planted: Path, package: str, source: str) -> None:
    (planted / package / "bad.py").write_text(source)
    assert len(strangers(package, planted)) == 1


@pytest.mark.parametrize("source", ["import apache_beam", "import transforms", "import tests"])
def test_the_front_door_may_not_know_everything(planted: Path, source: str) -> None:
    (planted / "ldpbeam" / "__init__.py").write_text(f"from ldpbeam.pipelines import run\n{source}")
    assert len(strangers("ldpbeam", planted)) == 1


def test_a_permitted_import_is_not(planted: Path) -> None:
    (planted / "transforms" / "good.py").write_text("import apache_beam\nfrom ldpbeam import domain\n")
    (planted / "ldpbeam" / "good.py").write_text("from .errors import A\nimport numpy\n")
    assert strangers("transforms", planted) + strangers("ldpbeam", planted) == []


@pytest.mark.parametrize("name", ["numpy", "random", "yaml", "ldpbeam.simulators"])
def test_a_client_that_imports_more_is_seen(planted: Path, name: str) -> None:
    (planted / "ldpbeam" / "client" / "bad.py").write_text(f"def f():\n    import {name}\n")
    assert client_strangers(planted) == [f"ldpbeam/client/bad.py imports {name.rpartition('.')[2]}"]


@pytest.mark.parametrize(
    "source",
    [
        "from apache_beam.transforms import core\ncore.get_function_args_defaults = print",
        "from a.b import Sampler\nSampler.__init__.__defaults__ = (5,)",
        "def f():\n    import apache_beam as beam\n    before, beam.io.x = beam.io.x, None",
        "import a.b\nsetattr(a.b, 'c', 1)",
        "from a import b\nb.known['c'] = None",
        "import a\na.most += 1",
        "import a\ndel a.b",
    ],
)
def test_a_name_that_is_set_in_another_library_is_seen(planted: Path, source: str) -> None:
    (planted / "pipelines" / "bad.py").write_text(source)
    assert len(patches(planted)) == 1


def test_names_of_our_own_may_be_set(planted: Path) -> None:
    source = "import a\nfrom ldpbeam import b\nfrom . import c\nb.d = 1\nc.d = 2\ne = a.f()\ne.g = 3\n"
    (planted / "pipelines" / "good.py").write_text(source)
    assert patches(planted) == set()


def test_relative_imports_are_resolved() -> None:
    source = "from . import a\nfrom ..b import c\nfrom .d import e"
    assert list(imports(source, "ldpbeam.client")) == ["ldpbeam.client", "ldpbeam.b", "ldpbeam.client.d"]


def test_a_loaded_server_library_is_seen(planted: Path) -> None:
    (planted / "device.py").write_text("import numpy")
    assert "numpy" in loaded_by("device", planted)


@pytest.mark.parametrize("name", ["proto/__init__.py", "tests/ldpbeam/__init__.py"])
def test_a_misplaced_init_is_seen(planted: Path, name: str) -> None:
    (planted / name).touch()
    assert misplaced_inits(planted) == [name]


def test_what_is_run_first_is_there() -> None:
    """A file that was renamed would be run last, in silence."""
    assert [name for name in LONGEST_FIRST if not (REPOSITORY / name).is_file()] == []
