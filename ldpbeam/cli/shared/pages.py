"""The pages of docs/, which travel with the package: found by name, shown in a terminal, or as HTML.

``ldpbeam/docs`` is a link to the repository's ``docs/``, as ``transforms`` is one; a wheel holds the files.
Decisions stay in the repository.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbeam.checkout import refuse
from ldpbeam.errors import UsageError

if TYPE_CHECKING:
    from markdown_it.token import Token

_WIDEST = 100  # columns: longer lines are hard to read
_STYLE = """\
:root { color-scheme: light dark; --quiet: #f3f3f0; --line: #c9c9c4; --link: #0b5394; }
@media (prefers-color-scheme: dark) { :root { --quiet: #26282b; --line: #4a4d52; --link: #8ab8f0; } }
body { font: 1rem/1.55 system-ui, sans-serif; margin: 1.5rem auto; max-width: 52rem; padding: 0 1rem; }
a { color: var(--link); }
pre, table { display: block; overflow-x: auto; }
pre, code { background: var(--quiet); font-family: ui-monospace, monospace; font-size: .9em; }
pre { padding: .7rem; }
table { border-collapse: collapse; }
th, td { border: 1px solid var(--line); padding: .3rem .55rem; text-align: left; vertical-align: top; }
img { background: #fff; max-width: 100%; }
"""


@dataclass(frozen=True)
class Page:
    """A page: its name as it is typed, its title, and its Markdown."""

    name: str
    title: str
    path: Path
    text: str


def pages() -> dict[str, Page]:
    """All pages by name."""
    folder = Path(str(files("ldpbeam"))) / "docs"
    if not folder.is_dir():
        refuse("docs")
    known = {}
    for path in sorted(folder.glob("*.md")):
        text = path.read_text("utf-8")
        title = re.match(r"# (.+)", text)
        known[path.stem] = Page(path.stem, title[1] if title else path.stem, path, text)
    return known


def page(name: str) -> Page:
    """The page of a name, which may be written as in a link: docs/planning.md."""
    known = pages()
    wanted = name.removeprefix("docs/").removesuffix(".md")
    if wanted in known:
        return known[wanted]
    near = get_close_matches(wanted.lower(), known, 3)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(
        "E-USAGE-OPTION", f"there is no page {name!r}", remedy=f"{hint}ldpbeam docs lists all pages."
    )


def terminal_text(shown: Page, width: int) -> str:
    """A page for a terminal of so many columns, with its control sequences."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(width, _WIDEST), force_terminal=True)
    with console.capture() as captured:
        console.print(Markdown(shown.text, hyperlinks=False))
    return captured.get()


def write_html(folder: Path) -> None:
    """Write all pages as HTML, with their figures, so that links between them work without a network."""
    known = pages()
    for one in known.values():
        (folder / f"{one.name}.html").write_text(html(one, known), "utf-8")
    listed = "".join(f"- [{one.title}]({one.name}.md)\n" for one in known.values())
    index = Page("index", "ldpbeam", folder, f"# ldpbeam\n\n{listed}")
    (folder / "index.html").write_text(html(index, known), "utf-8")
    figures = next(iter(known.values())).path.with_name("figures")
    (folder / "figures").mkdir()
    for figure in figures.glob("*.svg"):
        shutil.copy(figure, folder / "figures")


def html(shown: Page, known: dict[str, Page]) -> str:
    """A page as HTML. A link to a file that is not among the pages is left as its text."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(shown.text)
    _number_headings(tokens)
    for token in tokens:
        if token.children:
            token.children = _linked(token.children, known)
    body = parser.renderer.render(tokens, parser.options, {})
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(shown.title)}</title>\n'
        f'<meta name="viewport" content="width=device-width">\n<style>\n{_STYLE}</style>\n<main>\n{body}'
        "</main>\n</html>\n"
    )


def _number_headings(tokens: list[Token]) -> None:
    """Give headings the ids that links name: the words in small letters, joined by hyphens."""
    seen: Counter[str] = Counter()
    for opening, words in pairwise(tokens):
        if opening.type == "heading_open":
            slug = re.sub(r"[^\w\- ]", "", words.content.lower()).replace(" ", "-")
            opening.attrSet("id", f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1


def _linked(children: list[Token], known: dict[str, Page]) -> list[Token]:
    """Inline parts whose links lead to pages as HTML; those that would lead nowhere are taken out."""
    linked, dead = [], False
    for one in children:
        if one.type == "link_open":
            href = str(one.attrGet("href"))
            path, mark, anchor = href.partition("#")
            dead = "://" not in href and bool(path) and path.removesuffix(".md") not in known
            if path.endswith(".md"):
                one.attrSet("href", f"{path.removesuffix('.md')}.html{mark}{anchor}")
        if not (dead and one.type in {"link_open", "link_close"}):
            linked.append(one)
    return linked
