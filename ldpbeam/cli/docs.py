"""The command ``docs``: the pages of the documentation, which are part of the package."""

from __future__ import annotations

import shutil
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldpbeam.cli.shared.console import Mode, PrintingCommand, deliver, mode, say
from ldpbeam.errors import UsageError

if TYPE_CHECKING:
    from ldpbeam.cli.shared.pages import Page


@click.command(cls=PrintingCommand)
@click.argument("name", required=False)
@click.option("--browser", is_flag=True, help="Open the page, or the list, in a browser.")
def docs(name: str | None, browser: bool) -> None:
    """Show a page of the documentation; without a name, list all pages.

    In a terminal the page appears in a pager. A pipe or a file gets its Markdown.
    """
    from ldpbeam.cli.shared.pages import page, pages

    if browser:
        _open("index" if name is None else page(name).name)
    elif name is None:
        known = pages().values()
        wide = max(len(one.name) for one in known)
        for one in known:
            say(f"{one.name:<{wide}}  {one.title}")
        deliver([{"name": one.name, "title": one.title} for one in known])
    else:
        shown = page(name)
        if mode() is Mode.LINES:
            _show(shown)
        deliver({"name": shown.name, "title": shown.title, "path": str(shown.path), "text": shown.text})


def _show(shown: Page) -> None:
    from ldpbeam.cli.shared.pages import terminal_text

    if sys.stdout.isatty():
        click.echo_via_pager(terminal_text(shown, shutil.get_terminal_size().columns), color=True)
    else:
        click.echo(shown.text, nl=False)


def _open(name: str) -> None:
    """Write all pages, so that links work, into a folder that outlives this process."""
    from ldpbeam.cli.shared.pages import write_html

    folder = Path(tempfile.mkdtemp(prefix="ldpbeam-docs-"))
    write_html(folder)
    address = (folder / f"{name}.html").as_uri()
    if not webbrowser.open(address):
        raise UsageError(
            "E-USAGE-OPTION", "no browser can be started", remedy=f"Open {address}, or leave --browser out."
        )
    say(f"{name} in {address}")
    deliver({"page": name, "address": address})
