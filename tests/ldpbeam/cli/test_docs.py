"""``ldpbeam docs`` lists the pages and shows one; help and messages name pages that it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import click

from ldpbeam.cli.docs import pages
from ldpbeam.cli.main import cli
from tests.conftest import REPOSITORY
from tests.ldpbeam.cli.calling import call

NAMED = re.compile(r"\bldpbeam docs ([\w-]+)")


def test_all_pages_of_the_repository_are_listed_with_their_titles() -> None:
    lines = call("docs").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(pages())
    assert "planning           Choosing parameters" in lines
    listed = json.loads(call("docs", "--json").stdout)
    assert {"name": "planning", "title": "Choosing parameters"} in listed
    assert {one["name"] for one in listed} == {path.stem for path in (REPOSITORY / "docs").glob("*.md")}


def test_a_pipe_gets_the_page_as_it_is_written() -> None:
    text = (REPOSITORY / "docs" / "planning.md").read_text("utf-8")
    assert call("docs", "docs/planning.md").stdout == text
    assert json.loads(call("docs", "planning", "--json").stdout)["text"] == text


def test_another_name_is_refused_with_near_ones() -> None:
    text = str(call("docs", "planing").exception)
    assert text.startswith("there is no page 'planing'. Did you mean planning")


def helps(command: click.Command, path: str = "ldpbeam") -> Iterator[tuple[str, str]]:
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from helps(inner, f"{path} {name}")
    with click.Context(command, info_name=path, terminal_width=10_000) as context:
        yield path, command.get_help(context)


def unreachable(text: str) -> list[str]:
    """What a text names that an installation does not have."""
    lost = re.findall(r"\bdocs/[\w/-]+\.md\b|\bexamples/\w+|\bsee docs\b", text)
    named = set(NAMED.findall(text)) - {"lists"}
    return [*lost, *(sorted(named - pages().keys()) if named else ())]


def test_help_names_pages_that_an_installation_has() -> None:
    named = dict(helps(cli))
    assert {path: unreachable(text) for path, text in named.items() if unreachable(text)} == {}
    assert any(map(NAMED.search, named.values()))
