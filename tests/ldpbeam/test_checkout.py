"""Imports that cannot work say so: a folder by its own name, and a checkout whose links are plain files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbeam.checkout import LINKED
from tests.conftest import REPOSITORY


def python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as git writes it with core.symlinks=false: a link is a file that holds its target."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("ldpbeam", *LINKED):
        shutil.copytree(REPOSITORY / name, folder / name, symlinks=True, ignore=ignored)
    for name in LINKED:
        link = folder / "ldpbeam" / name
        target = str(link.readlink())
        link.unlink()
        link.write_text(target)
    return folder


def test_every_link_of_the_package_is_known() -> None:
    links = {path.name for path in (REPOSITORY / "ldpbeam").iterdir() if path.is_symlink()}
    assert links == {*LINKED, "docs"}


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("form", ["import {}", "from {} import anything", "import {}.something"])
def test_a_folder_by_its_own_name_says_under_which_name_it_is_imported(name: str, form: str) -> None:
    done = python("-c", form.format(name), folder=REPOSITORY)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {name} is a folder of the repository and a part of the package ldpbeam: "
        f"import ldpbeam.{name}."
    )


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize(
    "form", ["import ldpbeam.{}", "from ldpbeam import {}", "import ldpbeam.{}.some.thing"]
)
def test_a_checkout_without_links_says_how_to_get_them(plain: Path, name: str, form: str) -> None:
    done = python("-c", form.format(name), folder=plain)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == (
        f"ldpbeam.checkout.CheckoutError: {plain}/ldpbeam/{name}: ldpbeam/{name} is a link in the "
        "repository, and git wrote it as a plain file. Run git config core.symlinks true and git checkout -- "
        "ldpbeam (on Windows in developer mode), or pip install ldpbeam. [E-USAGE-CHECKOUT]"
    )


def test_the_command_says_so_in_one_line(plain: Path) -> None:
    done = python("-m", "ldpbeam", "--help", folder=plain)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("ldpbeam: ")
    assert done.stderr.endswith("[E-USAGE-CHECKOUT]\n")


def test_a_device_needs_no_link(plain: Path) -> None:
    code = (
        "import ldpbeam, pathlib; print(ldpbeam.__file__);"
        "collection = ldpbeam.parse_collection(pathlib.Path('c.yaml').read_text());"
        "print(len(ldpbeam.Device.ephemeral(collection).report('blue', epoch=0)) > 8)"
    )
    shutil.copy(REPOSITORY / "examples" / "first_choice.yaml", plain / "c.yaml")
    done = python("-c", code, folder=plain)
    assert done.stderr == ""
    assert done.stdout.split() == [str(plain / "ldpbeam" / "__init__.py"), "True"]


def test_other_modules_that_are_not_there_are_nothing_special(plain: Path) -> None:
    done = python("-c", "import ldpbeam.nothing", folder=plain)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'ldpbeam.nothing'"
