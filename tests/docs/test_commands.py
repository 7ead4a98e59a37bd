"""Every shell block of README.md, DESCRIPTION.md and docs/ is executed, and its shown output compared.

A block is fenced as sh; each command in it must end with 0, or with N where it says ``# exit code N``. A
block fenced as text that follows at once shows what the last command prints: its lines must appear in that
order, where ``…`` stands for anything, and a line that is only ``…`` for any lines.
"""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from ldpbeam.cli.main import main
from tests.conftest import REPOSITORY
from tests.waiting import PATIENCE

README = REPOSITORY / "README.md"
MARKS = {README: [], REPOSITORY / "docs" / "phones.md": [pytest.mark.kotlin]}
PAGES = sorted([README, REPOSITORY / "DESCRIPTION.md", *(REPOSITORY / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"#\s*exit code (\d+)\s*$")
DATA = re.compile(r"(?<![\w/])data/([\w.]+)")
DEMO = "ldpbeam demo --output demo-output"
ALONE = re.compile(r"ldpbeam( |$)")
SHELL = set("|&;<>()$`*?~")
"""What makes of a word more than itself, outside quotes."""


@dataclass(frozen=True)
class Block:
    """One shell block and the output that the page shows for it."""

    commands: tuple[str, ...]
    shown: str | None


def complete(command: str) -> bool:
    """Whether bash would not wait for more; of a here-document without its end it warns only."""
    done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr and not command.endswith("\\")


def commands(block: str) -> Iterator[str]:
    held = ""
    for line in block.splitlines():
        held = f"{held}\n{line}" if held else line
        if held.strip() and complete(held):
            yield held
            held = ""
    assert not held.strip(), f"unfinished command: {held}"


def blocks(text: str) -> list[Block]:
    return [Block(tuple(commands(found[1])), found[2]) for found in BLOCK.finditer(text)]


def expected_code(command: str) -> int:
    found = EXPECTED.search(command)
    return int(found[1]) if found else 0


def differs(shown: str, printed: str) -> str | None:
    """The first line shown that is not printed, in order; None when all are."""
    rest = printed.splitlines()
    for line in shown.splitlines():
        pattern = ".*".join(map(re.escape, line.rstrip().split("…")))
        if line.strip() == "…":
            continue
        for i, candidate in enumerate(rest):
            if re.fullmatch(pattern, candidate.rstrip()):
                rest = rest[i + 1 :]
                break
        else:
            return line
    return None


def recipe(command: str) -> str:
    """What a call of make would execute, here by the interpreter that runs the tests."""
    _, target, *variables = shlex.split(command)
    installed = "--assume-old=.venv/.installed-demo"
    make = ["make", "--dry-run", "--no-print-directory", installed, target, *variables]
    done = subprocess.run(make, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return done.stdout.replace(".venv/bin/", "")


def words(command: str) -> list[str] | None:
    """The arguments of a call of ldpbeam that needs no shell; None of any other command."""
    plain = re.sub(r"'[^']*'", "''", command.replace("\\\n", " ").partition("  #")[0])
    if not ALONE.match(command) or SHELL & set(plain) or "\n" in plain:
        return None
    return shlex.split(command.replace("\\\n", " "), comments=True)


def called(arguments: list[str], folder: Path) -> tuple[int, str]:
    """Exit code and output of ldpbeam, called as its program calls it, without Beam's imports once more."""
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with (
        chdir(folder),
        redirect_stdout(printed),
        redirect_stderr(printed),
        mock.patch.object(sys, "argv", arguments),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return int(ended.value.code or 0), printed.buffer.getvalue().decode()


def runs(command: str, environment: dict[str, str], folder: Path) -> str:
    """Execute one command and give what it printed on both streams."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == expected_code(command), f"{command}\n{done.stdout}"
    return done.stdout


def answers(command: str, environment: dict[str, str], folder: Path) -> str:
    """The same, in this process where that can be: a page of commands would import Beam for each."""
    if (arguments := words(command)) is None:
        return runs(command, environment, folder)
    code, printed = called(arguments, folder)
    assert code == expected_code(command), f"{command}\n{printed}"
    return printed


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    venv = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{venv}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80"}


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> tuple[Path, str]:
    """The demonstration, run once for all pages that show it: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    return folder / "demo-output", runs(DEMO, environment, folder)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a user's working directory holds, as far as the pages use it."""
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    data = REPOSITORY.parent / "shared" / "data"
    if data.is_dir():
        (tmp_path / "data").symlink_to(data)
    return tmp_path


WITH_BLOCKS = [page for page in PAGES if BLOCK.search(page.read_text("utf-8"))]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.relative_to(REPOSITORY)),
            marks=MARKS.get(page, [pytest.mark.thorough]),
        )
        for page in WITH_BLOCKS
    ],
)
@pytest.mark.thorough
def test_the_blocks_of_a_page_do_what_it_says(
    page: Path,
    checkout: Path,
    environment: dict[str, str],
    request: pytest.FixtureRequest,
) -> None:
    # README's commands are a newcomer's: each is a process, as for them.
    does = runs if page == README else answers
    absent = []
    for block in blocks(page.read_text("utf-8")):
        missing = [
            name
            for command in block.commands
            for name in DATA.findall(command)
            if not (checkout / "data" / name).exists()
        ]
        if missing:
            absent += missing
            continue
        printed = ""
        for command in block.commands:
            if command == "make test":
                printed = block.shown or ""  # it must not start itself
            elif command in {"make demo", DEMO}:
                folder, printed = request.getfixturevalue("demonstration")
                if not (checkout / folder.name).exists():
                    shutil.copytree(folder, checkout / folder.name)
            elif command.startswith("make reproduce "):
                printed = runs(recipe(command), environment | {"PYTHONPATH": str(REPOSITORY)}, checkout)
            else:
                assert not command.startswith("make "), f"not known to this test: {command}"
                printed = does(command, environment, checkout)
        if block.shown is not None:
            line = differs(block.shown, printed)
            assert line is None, f"{block.commands[-1]} does not print {line!r} but:\n{printed}"
    if absent:
        pytest.skip(f"all blocks ran but those on absent public data sets: {', '.join(absent)}")


def test_every_command_has_a_block_in_its_page() -> None:
    from ldpbeam.cli.main import cli

    page = (REPOSITORY / "docs" / "commands.md").read_text("utf-8")
    called = {
        shlex.split(command, comments=True)[1]
        for block in blocks(page)
        for command in block.commands
        if command.startswith("ldpbeam ")
    }
    assert called == set(cli.commands)
    headings = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(cli.commands)


@pytest.mark.thorough
def test_the_run_record_has_the_keys_of_the_page(demonstration: tuple[Path, str]) -> None:
    output = demonstration[0] / "output"
    page = (REPOSITORY / "docs" / "outputs.md").read_text("utf-8").partition("## `run.json`")[2]
    record = json.loads((output / "run.json").read_text("utf-8"))
    described = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert [key for key in described if key not in {"stream", "job", "passed_over"}] == list(record)
    assert f"`{record['schema']}`" in page
