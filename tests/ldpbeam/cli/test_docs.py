"""``ldpbeam docs`` lists the pages and shows one; help and messages name pages that it has."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from ldpbeam.cli.docs import pages
from ldpbeam.cli.main import cli
from tests.conftest import REPOSITORY
from tests.ldpbeam.cli.calling import call

PACKAGES = ("ldpbeam", "transforms", "pipelines", "simulators")
NAMED = re.compile(r"\bldpbeam docs ([\w-]+)")


def in_terminal(*arguments: str, width: int = 60, answers: str = "") -> tuple[int, str]:
    """Run the command as in a terminal of so many columns: its exit code, and what the terminal shows."""
    above, below = pty.openpty()
    environment = {**os.environ, "PAGER": "cat", "TERM": "xterm", "COLUMNS": str(width)}
    command = [sys.executable, "-m", "ldpbeam", *arguments]
    process = subprocess.Popen(command, stdin=below, stdout=below, stderr=below, env=environment)
    os.close(below)
    os.write(above, answers.encode())
    shown = b""
    while True:
        try:
            part = os.read(above, 1 << 16)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(above)
    return process.wait(), shown.decode()


# --- which pages there are


def test_the_pages_are_those_of_the_repository_without_decisions() -> None:
    assert {one.path.resolve() for one in pages().values()} == set((REPOSITORY / "docs").glob("*.md"))


def test_all_pages_are_listed_with_their_titles() -> None:
    lines = call("docs").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(pages())
    assert "planning           Choosing parameters" in lines
    listed = json.loads(call("docs", "--json").stdout)
    assert {"name": "planning", "title": "Choosing parameters"} in listed
    assert len(listed) == len(lines)


@pytest.mark.parametrize("name", ["planning", "docs/planning.md"])
def test_a_pipe_gets_the_page_as_it_is_written(name: str) -> None:
    text = (REPOSITORY / "docs" / "planning.md").read_text("utf-8")
    assert call("docs", name).stdout == text
    assert json.loads(call("docs", name, "--json").stdout)["text"] == text


@pytest.mark.parametrize(
    ("name", "said"),
    [("planing", "Did you mean planning or poisoning? "), ("Privacy", "Did you mean privacy"), ("zzz", ".")],
)
def test_another_name_is_refused_with_near_ones(name: str, said: str) -> None:
    done = call("docs", name)
    text = str(done.exception)
    assert text.startswith(f"there is no page '{name}'. {'' if said == '.' else said}")
    assert text.endswith("ldpbeam docs lists all pages. [E-USAGE-OPTION]")


# --- a terminal


@pytest.mark.thorough
def test_a_terminal_gets_a_laid_out_page_in_its_width() -> None:
    code, shown = in_terminal("docs", "planning", width=60)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert code == 0
    assert shown != plain
    assert "# Choosing" not in plain
    assert "Choosing parameters" in plain
    assert max(len(line.rstrip()) for line in plain.splitlines()) <= 60


# --- what names a page


def helps(command: click.Command, path: str = "ldpbeam") -> Iterator[tuple[str, str]]:
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from helps(inner, f"{path} {name}")
    with click.Context(command, info_name=path, terminal_width=10_000) as context:
        yield path, command.get_help(context)


def texts(source: str) -> Iterator[str]:
    """Strings of a module that somebody may read at run time: all but docstrings and other bare strings."""
    tree = ast.parse(source)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def unreachable(text: str) -> list[str]:
    """What a text names that an installation does not have."""
    lost = re.findall(r"\bdocs/[\w/-]+\.md\b|\bexamples/\w+|\bsee docs\b", text)
    named = set(NAMED.findall(text)) - {"lists"}
    return [*lost, *(sorted(named - pages().keys()) if named else ())]


def test_help_names_pages_that_an_installation_has() -> None:
    named = dict(helps(cli))
    assert {path: unreachable(text) for path, text in named.items() if unreachable(text)} == {}
    assert any(map(NAMED.search, named.values()))


@pytest.mark.thorough
def test_messages_name_pages_that_an_installation_has() -> None:
    found = {
        str(path.relative_to(REPOSITORY)): lost
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        for text in texts(path.read_text("utf-8"))
        if (lost := unreachable(text))
    }
    assert found == {}
