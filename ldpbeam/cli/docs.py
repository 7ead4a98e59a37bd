"""The command ``docs``: the pages of docs/, which travel with the package.

``ldpbeam/docs`` is a link to the repository's ``docs/``; a wheel holds the files, but for decisions.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import click

import ldpbeam
from ldpbeam.cli.shared.console import Mode, PrintingCommand, deliver, mode, say
from ldpbeam.errors import option_error


@click.command(cls=PrintingCommand)
@click.argument("name", required=False)
def docs(name: str | None) -> None:
    """Show a page of the documentation; without a name, list all pages.

    A page is Markdown; in a terminal it appears in a pager.
    """
    if name is None:
        known = pages().values()
        wide = max(len(one.name) for one in known)
        for one in known:
            say(f"{one.name:<{wide}}  {one.title}")
        deliver([{"name": one.name, "title": one.title} for one in known])
        return
    shown = page(name)
    if mode() is Mode.LINES and sys.stdout.isatty():
        click.echo_via_pager(shown.text)
    elif mode() is Mode.LINES:
        click.echo(shown.text, nl=False)
    deliver({"name": shown.name, "title": shown.title, "path": str(shown.path), "text": shown.text})


@dataclass(frozen=True)
class Page:
    name: str
    title: str
    path: Path
    text: str


def pages() -> dict[str, Page]:
    known = {}
    for path in sorted((Path(ldpbeam.__path__[0]) / "docs").glob("*.md")):
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
    raise option_error(f"there is no page {name!r}", f"{hint}ldpbeam docs lists all pages.")
