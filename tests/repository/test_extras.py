"""What is installed by itself, and what a command says whose part is not there."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ldpbeam.errors import extra_error
from tests.conftest import REPOSITORY
from tests.narrow import present

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
ABSENT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
IMPORTED_AS = {
    "apache-beam": "apache_beam",
    "vl-convert-python": "vl_convert",
}


def modules(extra: str) -> set[str]:
    """Modules of an extra, as they are imported."""
    names = (re.split(r"[^\w-]", wanted)[0] for wanted in PROJECT["optional-dependencies"][extra])
    return {IMPORTED_AS.get(name, name) for name in names} - {"ldpbeam"}


def without(names: set[str], code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code where these modules are not installed."""
    command = [sys.executable, "-c", ABSENT.format(names=names) + code]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


COMMAND = "sys.argv = ['ldpbeam', *{arguments!r}]\nfrom ldpbeam.__main__ import main\nmain()\n"


def test_little_is_installed_by_itself() -> None:
    assert {re.split(r"[^\w-]", wanted)[0] for wanted in PROJECT["dependencies"]} == {"protobuf", "PyYAML"}


def test_a_device_reports_without_any_extra(tmp_path: Path) -> None:
    absent = modules("pipeline") | modules("page")
    path = REPOSITORY / "examples" / "minutes_in_app.yaml"
    code = f"""
from ldpbeam.client import Device
from ldpbeam.collection.file import load_collection
from pathlib import Path
print(len(Device.open(load_collection(Path({str(path)!r})), "state").report(3, 5)) > 8)
"""
    done = without(absent, code, tmp_path)
    assert (done.stderr, done.stdout) == ("", "True\n")


@pytest.mark.parametrize("arguments", [["--version"], []])
def test_a_devices_installation_answers(tmp_path: Path, arguments: list[str]) -> None:
    """Version and help need nothing; help says what to install, and the version is the command line's."""
    absent = modules("pipeline") | modules("page") | modules("collect")
    done = without(absent, COMMAND.format(arguments=arguments), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    if arguments:
        assert done.stdout == without(set(), COMMAND.format(arguments=arguments), tmp_path).stdout
    else:
        assert "pip install 'ldpbeam[pipeline]'" in done.stdout


@pytest.mark.thorough
def test_a_command_says_which_part_it_needs(tmp_path: Path) -> None:
    done = without({"apache_beam"}, COMMAND.format(arguments=["demo", "--output", "demo"]), tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "ldpbeam: this needs apache_beam, which is not installed. "
        "Install it with: pip install 'ldpbeam[pipeline]'. [E-USAGE-EXTRA]"
    )


@pytest.mark.thorough
def test_beam_says_nothing_of_the_parts_that_it_lacks(tmp_path: Path) -> None:
    """Google's are an extra that a demonstration does without; Beam would warn of each at its import."""
    small = "from ldpbeam.cli import demo\ndemo._DEVICES, demo._EPOCHS = 300, 2\n"
    code = small + COMMAND.format(arguments=["demo", "--output", "demo"])
    done = without({"google.cloud", "google.auth", "apitools"}, code, tmp_path)
    assert [said for said in ("not found", "client libraries", "apache_beam") if said in done.stderr] == []


@pytest.mark.parametrize("extra", ["pipeline", "page", "collect"])
def test_every_module_of_an_extra_is_known(extra: str) -> None:
    for name in modules(extra):
        said = present(extra_error(ModuleNotFoundError(name=f"{name}.part")))
        assert f"ldpbeam[{extra}]" in str(said)
    assert extra_error(ModuleNotFoundError(name="something")) is None


def test_not_all_that_is_googles_is_of_the_extra_gcp() -> None:
    """google.protobuf comes with the distribution itself."""
    for name in ("google.cloud", "google.cloud.pubsub_v1", "google.api_core.exceptions", "google.auth"):
        assert "ldpbeam[gcp]" in str(extra_error(ModuleNotFoundError(name=name)))
    for name in ("google", "google.protobuf", "google.protobuf.message", "google.cloudy"):
        assert extra_error(ModuleNotFoundError(name=name)) is None
