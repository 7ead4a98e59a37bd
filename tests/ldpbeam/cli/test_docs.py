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
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock
from urllib.parse import unquote, urlparse

import click
import pytest

from ldpbeam.checkout import CheckoutError
from ldpbeam.cli.main import cli
from ldpbeam.cli.shared import pages as module
from ldpbeam.cli.shared.pages import Page, html, page, pages, write_html
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


@pytest.mark.parametrize("name", ["planning", "planning.md", "docs/planning.md"])
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


def test_a_link_that_git_wrote_as_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "docs").write_text("../docs")
    with mock.patch.object(module, "files", lambda _: tmp_path), pytest.raises(CheckoutError, match="plain"):
        pages()


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


# --- a browser


class _Seen(HTMLParser):
    """Links, pictures, ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [str(given["href"])] if tag == "a" else []
        self.loaded += [str(given[key]) for key in ("src", "rel") if key in given]
        self.ids |= {str(given["id"])} if "id" in given else set()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, _Seen]:
    folder = tmp_path_factory.mktemp("html")
    write_html(folder)
    assert {path.suffix for path in (folder / "figures").iterdir()} == {".svg"}
    return {path.name: _Seen(path.read_text("utf-8")) for path in folder.glob("*.html")}


@pytest.mark.thorough
def test_every_link_of_every_page_leads_somewhere(written: dict[str, _Seen]) -> None:
    dead = []
    for name, seen in written.items():
        for link in seen.links:
            if "://" in link or link.startswith("mailto:"):
                continue
            path, _, anchor = link.partition("#")
            target = written.get(path or name)
            if target is None or (anchor and unquote(anchor) not in target.ids):
                dead.append(f"{name}: {link}")
    assert dead == []
    assert sum(len(seen.links) for seen in written.values()) > 200


@pytest.mark.thorough
def test_no_page_loads_anything_from_outside(written: dict[str, _Seen]) -> None:
    loaded = {one for seen in written.values() for one in seen.loaded}
    assert loaded
    assert {one for one in loaded if not re.fullmatch(r"figures/[\w-]+\.svg", one)} == set()


def test_a_page_is_html_of_its_markdown() -> None:
    links = "[in](two.md#x-y) [out](../README.md) [to](https://example.com)"
    text = f"# A <b> & c\n\n{links}\n\n## X y\n\n## X y\n"
    one = Page("one", "A <b> & c", Path("one.md"), text)
    made = html(one, {"one": one, "two": one})
    assert "<title>A &lt;b&gt; &amp; c</title>" in made
    assert '<a href="two.html#x-y">in</a> out <a href="https://example.com">to</a>' in made
    assert '<h2 id="x-y">X y</h2>\n<h2 id="x-y-1">X y</h2>' in made


@pytest.mark.parametrize(("name", "opened"), [("planning", "planning.html"), (None, "index.html")])
@pytest.mark.cases(1)
def test_a_browser_is_given_a_page_with_its_links(name: str | None, opened: str, tmp_path: Path) -> None:
    arguments = ["docs", *([name] if name else []), "--browser"]
    with (
        mock.patch("webbrowser.open", return_value=True) as browser,
        mock.patch("tempfile.tempdir", str(tmp_path)),
    ):
        done = call(*arguments)
    assert done.exit_code == 0
    (address,) = browser.call_args.args
    path = Path(unquote(urlparse(address).path))
    assert path.name == opened
    assert path.is_relative_to(tmp_path)
    assert (path.parent / "privacy.html").is_file()
    assert address in done.stdout


@pytest.mark.thorough
def test_without_a_browser_the_address_is_said(tmp_path: Path) -> None:
    with (
        mock.patch("webbrowser.open", return_value=False),
        mock.patch("tempfile.tempdir", str(tmp_path)),
    ):
        done = call("docs", "planning", "--browser")
    assert re.search(r"no browser can be started\. Open file://\S+/planning\.html", str(done.exception))


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
    assert NAMED.search(named["ldpbeam plan"])


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


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("docs/planning.md says", ["docs/planning.md"]),
        ("see docs.", ["see docs"]),
        ("ldpbeam docs nowhere says", ["nowhere"]),
        ("Start from examples/minutes_in_app.yaml.", ["examples/minutes_in_app"]),
        ("ldpbeam docs planning says", []),
    ],
)
def test_a_text_that_leads_nowhere_is_seen(text: str, lost: list[str]) -> None:
    assert unreachable(text) == lost


def test_a_page_of_that_name_is_found() -> None:
    assert page("privacy").title == "Promises to a device"
