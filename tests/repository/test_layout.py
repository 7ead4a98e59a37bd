"""What modules load, which names they take, where tests lie; `make lint` sees which room imports which."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import LAST, LONGEST_FIRST, REPOSITORY

LINKED = ("transforms", "pipelines", "simulators")
"""Folders of the repository that are packages of ldpbeam: links in ldpbeam/ lead to them."""
# A device runs ldpbeam.client: standard library, protobuf and the core. `random` is standard, and no
# source of private noise.
CLIENT_MAY_IMPORT = (sys.stdlib_module_names | {"google", "ldpbeam"}) - {"random"}
MAY_SET = {
    "pipelines/workers.py sets worker_handlers.DATA_BUFFER_TIME_LIMIT_MS",
    "ldpbeam/kernels/jit.py sets config.CACHE_DIR",  # while one kernel is made
}
"""Names of other libraries that ours sets, none of them for speed."""
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


def modules(folder: Path) -> list[Path]:
    """Its own modules, not those behind links."""
    return sorted(
        path
        for path in folder.rglob("*.py")
        if not any(parent.is_symlink() for parent in path.parents if folder in parent.parents)
    )


def part(name: str) -> str:
    """The package that a dotted name belongs to; a linked folder by its own name."""
    first, _, rest = name.partition(".")
    below = rest.partition(".")[0]
    return below if first == "ldpbeam" and below in LINKED else first


def client_strangers(top: Path) -> list[str]:
    return [
        f"{path.relative_to(top)} imports {name}"
        for path in modules(top / "ldpbeam" / "client")
        for name in sorted(set(map(part, imports(path.read_text(), "ldpbeam.client"))) - CLIENT_MAY_IMPORT)
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
        for package in ("ldpbeam", *LINKED)
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


def absolute_inside(top: Path) -> list[str]:
    """Imports inside a linked folder that are not relative: tools that read paths do not follow those."""
    return [
        f"{path.relative_to(top)} imports {name}"
        for folder in LINKED
        for path in modules(top / folder)
        if path.name != "launch.py"  # a file of its own in the image of a template
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and not node.level
        for name in [str(node.module)]
        if f"{name}.".startswith(f"ldpbeam.{folder}.")
    ]


def private_names(top: Path) -> list[str]:
    """Imports of a private name of another module."""
    return [
        f"{path.relative_to(top)} imports {name.name}"
        for folder in ("ldpbeam", *LINKED)
        for path in modules(top / folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.name.startswith("_") and not name.name.startswith("__") and node.module
    ]


MIRRORED = ("ldpbeam", *LINKED, "reproduction", "benchmarks")
"""Folders whose tests lie in folders of the same names below tests/."""


def homeless(tests: list[str], top: Path) -> list[str]:
    """Test files of mirrored folders whose room is not there, or that have the name of another room's module.

    A test file has the name of its module, or another name and is about its room.
    """
    known = {path.relative_to(top) for folder in MIRRORED for path in modules(top / folder)}
    names = {path.stem for path in known}
    found = []
    for test in tests:
        path = Path(test).relative_to("tests")
        room, subject = path.parent, path.stem.removeprefix("test_")
        inside = {one for one in known if room in one.parents}
        if path.parts[0] in MIRRORED and (
            not inside or (subject in names and subject not in {one.stem for one in inside})
        ):
            found.append(test)
    return found


@pytest.mark.thorough
def test_every_test_file_lies_in_the_folder_of_its_room() -> None:
    tests = [str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "tests").rglob("test_*.py")]
    assert homeless(sorted(tests), REPOSITORY) == []


def test_imports_inside_a_linked_folder_are_relative() -> None:
    assert absolute_inside(REPOSITORY) == []


@pytest.mark.thorough
def test_no_module_imports_a_private_name() -> None:
    assert private_names(REPOSITORY) == []


def lint(top: Path) -> subprocess.CompletedProcess[str]:
    """What import-linter says of the package below a folder."""
    command: list[str | Path] = [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"]
    command += [REPOSITORY / "pyproject.toml"]
    environment = {**os.environ, "PYTHONPATH": str(top)}
    return subprocess.run(command, cwd=top, env=environment, capture_output=True, text=True, check=False)


def test_the_client_imports_the_standard_library_protobuf_and_ldp() -> None:
    assert client_strangers(REPOSITORY) == []


def test_a_protocol_loads_no_server_library() -> None:
    assert loaded_by("ldpbeam.protocols", REPOSITORY) & SERVER_ONLY == set()


def test_a_part_of_the_planner_does_not_load_all_of_it() -> None:
    """A page of results takes sentences on shufflers from it, and would load a sixth more with the rest."""
    assert "numpy" not in loaded_by("ldpbeam.planning", REPOSITORY)


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
    assert links == {name: Path("..", name) for name in (*LINKED, "docs")}


@pytest.mark.thorough
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


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, links followed, in a place where they may be broken."""
    top = tmp_path_factory.mktemp("sources")
    shutil.copytree(REPOSITORY / "ldpbeam", top / "ldpbeam", ignore=shutil.ignore_patterns("__pycache__"))
    return top


def test_a_sound_tree_passes(copied: Path) -> None:
    done = lint(copied)
    assert done.returncode == 0, done.stdout


UPWARD = [
    ("reports", "import apache_beam as beam", "apache_beam"),
    ("reports", "def f():\n    from ldpbeam.transforms import stages", "transforms.stages"),
    (
        "simulators.random_words",
        "from ldpbeam.transforms.stages.reports import EpochParts",
        "transforms.stages.reports",
    ),
    ("transforms.pubsub", "import ldpbeam.cli.main", "cli.main"),
    ("transforms.pubsub", "from ldpbeam.simulators import fleet", "simulators.fleet"),
    ("pipelines.run", "from ldpbeam.engine import publication", "engine.publication"),
    ("collector.topic", "from ldpbeam.engine.sources import subscriber", "engine.sources.subscriber"),
    ("engine.run", "from ldpbeam.report_page import live", "report_page.live"),
    ("records.output", "from ldpbeam.pipelines import bounded", "pipelines.bounded"),
    ("privacy.loss", "from ldpbeam.protocols import contract", "protocols.contract"),
    ("protocols.history_model", "from ldpbeam.audit.checks import outcome", "audit.checks.outcome"),
    ("protocols.contract", "from ldpbeam.consistency import _simplex", "consistency._simplex"),
]
"""Where an import stands, what it is, and the module that it reaches."""


@pytest.fixture(scope="module")
def said(copied: Path) -> str:
    """What import-linter says of all of them at once, of a module in no room, and of a circle."""
    wrong = {copied / "ldpbeam" / "unheard_of.py": [""]}
    circle = ("privacy.loss", "from ldpbeam.privacy import bit_loss", "")  # which imports it
    for module, source, _ in (*UPWARD, circle):
        wrong.setdefault(copied / "ldpbeam" / f"{module.replace('.', '/')}.py", []).append(source)
    before = {path: path.read_text() if path.exists() else None for path in wrong}
    for path, sources in wrong.items():
        path.write_text("\n".join([before[path] or "", *sources, ""]))
    done = lint(copied)
    for path, text in before.items():
        path.write_text(text) if text is not None else path.unlink()
    assert done.returncode == 1, done.stdout
    return done.stdout


@pytest.mark.parametrize(("module", "source", "reached"), UPWARD)
def test_an_import_that_runs_upward_is_seen(said: str, module: str, source: str, reached: str) -> None:
    target = reached if reached == "apache_beam" else f"ldpbeam.{reached}"
    assert re.search(rf"^-\s+ldpbeam\.{re.escape(module)} -> {re.escape(target)} ", said, re.MULTILINE)


def test_a_module_in_no_room_is_seen(said: str) -> None:
    assert "\n- ldpbeam.unheard_of\n" in said


def test_a_circle_is_seen(said: str) -> None:
    assert "\nNo cycles are allowed in ldpbeam.privacy.\n" in said
    assert "\n- .loss -> .bit_loss (1 import)\n" in said


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from ldpbeam.transforms.stages import reports", 1),
        ("from ldpbeam.transforms import coders", 1),
        ("def f():\n    from ldpbeam.transforms import coders", 1),
        ("from . import coders\nfrom ldpbeam.reports import Admission", 0),
    ],
)
def test_an_absolute_import_inside_a_linked_folder_is_seen(planted: Path, source: str, found: int) -> None:
    (planted / "transforms" / "one.py").write_text(source)
    assert len(absolute_inside(planted)) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [("from .run import _publish", 1), ("from ldpbeam import __version__", 0), ("from . import run", 0)],
)
def test_a_private_name_is_seen(planted: Path, source: str, found: int) -> None:
    (planted / "pipelines" / "one.py").write_text(source)
    assert len(private_names(planted)) == found


def test_a_test_without_a_room_is_seen(planted: Path) -> None:
    (planted / "ldpbeam" / "client" / "device.py").touch()
    (planted / "transforms" / "coders.py").touch()
    good = [
        "tests/ldpbeam/client/test_device.py",
        "tests/ldpbeam/client/test_lateness.py",
        "tests/laws/test_x.py",
    ]
    bad = [
        "tests/ldpbeam/nowhere/test_a.py",
        "tests/ldpbeam/client/test_coders.py",
        "tests/ldpbeam/report_page/test_b.py",
    ]
    assert homeless([*good, *bad], planted) == bad


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
    assert [name for name in (*LONGEST_FIRST, *LAST) if not (REPOSITORY / name).is_file()] == []
