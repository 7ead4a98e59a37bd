"""Every command and option as a page of Markdown, from click: ``python -m tests.docs.options`` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from ldpbeam.cli.main import cli


def page() -> str:
    """One section per command: what it does, how it is called, and a table of its options."""
    lines = [
        "# Options of every command",
        "",
        "What `ldpbeam COMMAND --help` prints. [commands.md](commands.md) has examples.",
    ]
    for name in sorted(cli.commands):
        lines += ["", f"## ldpbeam {name}", "", *_command(name, cli.commands[name])]
    return "\n".join(lines) + "\n"


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"ldpbeam {name}")
    yield from ("```text", command.get_usage(context), "```", "")
    for part in (command.help or "").split("\n\n"):
        if part.startswith("\b\n"):
            yield from ("```text", part.removeprefix("\b\n"), "```", "")
        else:
            yield from (_text(" ".join(part.split())), "")
    yield from ("| option | meaning |", "| --- | --- |")
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            yield f"| `{record[0].replace('|', '¦')}` | {_text(record[1])} |"


def _text(said: str) -> str:
    """Help as Markdown: its signs are signs."""
    for sign in "\\`*_<>[]|":
        said = said.replace(sign, f"\\{sign}" if sign not in "<>" else {"<": "&lt;", ">": "&gt;"}[sign])
    return said


if __name__ == "__main__":
    sys.stdout.write(page())
