"""The site as `make docs` has built it: whole, without a dead link, and with nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import ldpbeam
from ldpbeam.cli.main import cli
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.site
SITE = REPOSITORY / "site"
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "video": "src", "object": "data"}
"""Attributes whose address a browser fetches by itself; those of ``link`` are looked at apart."""
FETCHED = {"stylesheet", "icon", "preload", "preconnect", "prefetch", "modulepreload", "manifest"}
FROM_ELSEWHERE = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])((?:https?:)?//[^'")\s]+)""")
IN_SCRIPTS = re.compile(r"""["'`](https?://[\w.-]+(?:/[\w@.-]+)*)""")
NEVER_FETCHED = {
    "http://www.w3.org": "names of namespaces",
    "https://unpkg.com/mermaid": "fetched for a diagram of Mermaid: no page has one",
    "https://unpkg.com/resize-observer-polyfill": "fetched by browsers from before 2020",
    "https://api.github.com": "fetched for the stars of a repository: the site names none",
    "https://gitlab.com": "the same",
}


class Page(HTMLParser):
    """What a page loads, where it leads, and the places that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if name := given.get("id"):
            self.places.add(name)
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loads.append(given[LOADED[tag]])
        if "srcset" in given:
            self.loads += [one.split()[0] for one in given["srcset"].split(",")]
        if tag == "link" and FETCHED & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        self.loads += FROM_ELSEWHERE.findall(given.get("style", ""))


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    found = {path: Page(path.read_text("utf-8")) for path in SITE.rglob("*.html")}
    assert len(found) > 50
    return found


def elsewhere(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in {"http", "https", "ws", "wss"}


def dead(path: Path, address: str, pages: dict[Path, Page]) -> bool:
    """Whether an address of a page leads to no file, or to no place in it."""
    parts = urlsplit(address)
    if parts.scheme or not (parts.path or parts.fragment):
        return False
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if there.is_dir():
        there /= "index.html"
    if not there.is_file():
        return True
    return bool(parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].places)


def test_no_page_loads_anything_from_elsewhere(pages: dict[Path, Page]) -> None:
    found = {path.name: [one for one in page.loads if elsewhere(one)] for path, page in pages.items()}
    assert {name: some for name, some in found.items() if some} == {}


def test_no_style_loads_anything_from_elsewhere() -> None:
    styles = [*SITE.rglob("*.css"), *SITE.rglob("*.html"), *SITE.rglob("*.svg")]
    assert any(path.suffix == ".css" for path in styles)
    assert [hit for path in styles for hit in FROM_ELSEWHERE.findall(path.read_text("utf-8"))] == []


def test_no_script_has_an_address_that_it_would_fetch() -> None:
    scripts = [path for path in SITE.rglob("*.js") if "files" not in path.relative_to(SITE).parts]
    assert scripts
    ours = [path for path in scripts if path.name != "search_index.js"]  # it holds the text of the pages
    found = {hit for path in ours for hit in IN_SCRIPTS.findall(path.read_text("utf-8"))}
    assert {hit for hit in found if not hit.startswith(tuple(NEVER_FETCHED))} == set()
    assert not any("mermaid" in path.read_text("utf-8") for path in (REPOSITORY / "docs").rglob("*.md"))


def test_no_link_is_dead(pages: dict[Path, Page]) -> None:
    found = {
        str(path.relative_to(SITE)): [one for one in page.leads + page.loads if dead(path, one, pages)]
        for path, page in pages.items()
        if path.name != "404.html"  # its links are those of the server's root
    }
    assert {name: some for name, some in found.items() if some} == {}


def test_every_page_of_docs_is_there_and_can_be_searched(pages: dict[Path, Page]) -> None:
    index = json.loads((SITE / "search" / "search_index.json").read_text("utf-8"))
    searched = {entry["location"].partition("#")[0] for entry in index["docs"]}
    for page in (REPOSITORY / "docs").rglob("*.md"):
        name = page.relative_to(REPOSITORY / "docs").with_suffix(".html").as_posix()
        name = re.sub(r"README\.html$", "index.html", name)
        assert SITE / name in pages, name
        assert name in searched or name.removesuffix("index.html") in searched, name


def test_the_references_have_every_name(pages: dict[Path, Page]) -> None:
    assert {f"ldpbeam.{name}" for name in ldpbeam.__all__} <= pages[SITE / "api.html"].places
    options = (SITE / "options.html").read_text("utf-8")
    for name, command in cli.commands.items():
        assert f"ldpbeam-{name}" in pages[SITE / "options.html"].places
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert option in options, (name, option)


def test_no_page_shows_marks_of_its_source(pages: dict[Path, Page]) -> None:
    """Signs of Markdown or of a docstring that were not read as such."""
    for path in pages:
        text = re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", path.read_text("utf-8"), flags=re.DOTALL)
        shown = re.sub(r"<[^>]*>", "", text)
        hits = re.findall(r":(?:class|func|meth|mod):|\]\([^)]*\)|^\s*\| ?-{3}|^```", shown, re.MULTILINE)
        assert hits == [], path.name


def looked_at() -> Iterator[tuple[str, list[str]]]:
    yield '<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]
    yield '<link rel="preconnect stylesheet" href="//fonts.example">', ["//fonts.example"]
    yield '<img srcset="a.png 1x, https://e.example/b.png 2x">', ["https://e.example/b.png"]
    yield '<p style="background: url(https://e.example/c.png)">', ["https://e.example/c.png"]
    yield '<a href="https://example.com">', []


@pytest.mark.parametrize(("text", "hits"), list(looked_at()))
def test_an_asset_from_elsewhere_is_seen(text: str, hits: list[str]) -> None:
    assert [one for one in Page(text).loads if elsewhere(one)] == hits


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h2 id="x">')
    pages = {path: Page(path.read_text()) for path in tmp_path.iterdir()}
    for address, is_dead in (("a.html#x", False), ("a.html#y", True), ("b.html", True), ("#x", False)):
        assert dead(tmp_path / "a.html", address, pages) is is_dead
