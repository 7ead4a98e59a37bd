"""The command that finds the tests of a changed file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import of
from tests.of import Imports

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def imports() -> Imports:
    return Imports.of_repository()


@pytest.fixture
def read_once(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command takes the imports that the other tests take: reading the repository is seconds."""
    monkeypatch.setattr(Imports, "of_repository", lambda: imports)


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ("ldpbeam/over_time/covariance.py", "tests/ldpbeam/over_time/test_covariance.py"),
        ("ldpbeam/records/journal.py", "tests/ldpbeam/records/test_journal.py"),
        ("ldpbeam/records/rejects.py", "tests/ldpbeam/records/test_output.py"),
        ("transforms/sources/parquet.py", "tests/transforms/sources/test_parquet.py"),
        ("ldpbeam/cli/compare.py", "tests/ldpbeam/cli/test_export_and_compare.py"),
        ("simulators/fleet.py", "tests/simulators/test_fleet.py"),
        ("tests/ldpbeam/protocols/test_means.py", "tests/ldpbeam/protocols/test_means.py"),
    ],
)
def test_the_first_test_is_the_one_about_the_file(imports: Imports, changed: str, first: str) -> None:
    found = of.tests_of([REPOSITORY / changed], imports)
    assert str(found[0].relative_to(REPOSITORY)) == first
    assert len(found) <= 3


def test_imports_are_found_however_they_are_written(tmp_path: Path) -> None:
    """Over several lines, within a function, relative, and in a program that is text."""
    texts = {
        "p.a": "import p.b\nfrom p.c import (\n    x,  # why\n    y,\n)\n",
        "p.b": "def f():\n    from . import c, d as e\n",
        "p.c": 'TEXT = """\nimport p.d\n"""\nimportant = 1\n',
        "p.d": "from p.c what it says, import nothing (\nimport\n",
    }
    paths = {name: tmp_path / f"{name}.py" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text)
    found = {path.stem: {one.stem for one in others} for path, others in Imports(paths).imported.items()}
    assert found == {"p.a": {"p.b", "p.c"}, "p.b": {"p.c", "p.d"}, "p.c": {"p.d"}, "p.d": set()}


def test_tests_of_its_own_are_found_without_reading_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would take seconds; only a file without tests of its own needs it."""
    monkeypatch.setattr(Imports, "imported", property(lambda _: pytest.fail("all files were read")))
    imports, changed = Imports.of_repository(), REPOSITORY / "ldpbeam" / "over_time" / "covariance.py"
    test = REPOSITORY / "tests" / "ldpbeam" / "over_time" / "test_covariance.py"
    assert of.tests_of([changed, test], imports) == [test]


@pytest.mark.usefixtures("read_once")
def test_it_lists_the_tests_of_several_files_once(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["ldpbeam/over_time/smooth.py", "tests/simulators/test_fleet.py", "simulators/fleet.py"]
    paths = [str(REPOSITORY / path) for path in asked]
    assert of.main(["--list", "--most", "1", *paths]) == 0
    listed = capsys.readouterr().out.split()
    assert listed.count("tests/simulators/test_fleet.py") == 1
    assert len(listed) == 2


@pytest.mark.thorough
def test_a_file_that_is_none_is_named() -> None:
    """By the command as a person types it."""
    command = [sys.executable, "-m", "tests.of", "--list", "README.md"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "README.md: no Python file" in done.stderr
