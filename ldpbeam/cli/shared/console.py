"""What a command prints on standard output: lines for people, or one JSON document, or nothing.

Warnings and errors go to standard error in every mode.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import click

from ldpbeam.text import clean


class Mode(Enum):
    LINES = "lines"
    JSON = "json"
    QUIET = "quiet"


_mode = Mode.LINES


def mode() -> Mode:
    return _mode


def say(*lines: str) -> None:
    """Lines for people, on standard output; made safe, since they may name files and labels of others."""
    if _mode is Mode.LINES:
        for line in lines:
            click.echo(clean(line))


def complain(text: str) -> None:
    """A warning or an error of the program, a line on standard error; made safe as by :func:`say`."""
    click.echo(clean(f"ldpbeam: {text}"), err=True)


def deliver(document: Any) -> None:
    """The result of the command for programs: one JSON document, where ``--json`` was given."""
    if _mode is Mode.JSON:
        click.echo(json.dumps(document, indent=1))


@contextmanager
def printing(*, quiet: bool = False, as_json: bool = False) -> Iterator[None]:
    global _mode  # noqa: PLW0603 - one command per process; tests run several, one after the other
    before = _mode
    _mode = Mode.JSON if as_json else Mode.QUIET if quiet else Mode.LINES
    try:
        yield
    finally:
        _mode = before


class PrintingCommand(click.Command):
    """A command with ``--quiet`` and ``--json``, which hold for everything that it prints."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params += [
            click.Option(["--quiet", "-q"], is_flag=True, help="Print warnings and errors only."),
            click.Option(["--json", "as_json"], is_flag=True, help="Print the result as one JSON document."),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        with printing(quiet=ctx.params.pop("quiet"), as_json=ctx.params.pop("as_json")):
            return super().invoke(ctx)
