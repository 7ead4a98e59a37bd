"""The command line. Heavy packages are imported inside commands, so that --help answers at once.

A command is a module of this folder with a click command of the same name; nothing else names it. What
several commands use is in shared/, and so is code of one command that it loads late.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import click

from ldpbeam import __version__
from ldpbeam import cli as commands
from ldpbeam.errors import LdpError, UsageError, option_error
from ldpbeam.text import clean

INTERRUPTED = 130


def _spelling(name: str) -> str:
    """Options are spelt with hyphens and results go to ``--output``; older spellings are taken too."""
    return "output" if name == "out" else name.replace("_", "-")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": _spelling})
@click.version_option(__version__, prog_name="ldpbeam")
def cli() -> None:
    """Statistics from devices under local differential privacy, again and again over time.

    A device's value becomes a report, reports fall into an epoch, an epoch's reports become support counts,
    counts become an estimate, estimates a consistent histogram.
    """


def commands_of(package: Any) -> Iterator[click.Command]:
    """The commands that a package's modules define, each by the name of its module."""
    for info in iter_modules(package.__path__):
        if not info.ispkg and info.name != "main":
            command = getattr(import_module(f"{package.__name__}.{info.name}"), info.name)
            assert isinstance(command, click.Command)  # noqa: S101 - as this folder is made
            yield command


for _command in commands_of(commands):
    cli.add_command(_command)


def _usage_error(error: click.UsageError) -> UsageError:
    """An error of click in the form of all others: place, what, remedy, code."""
    place, what, remedy = "", error.format_message(), ""
    if isinstance(error, click.MissingParameter):
        what = re.sub(r"\..*", " is missing", what.removeprefix("Missing "), flags=re.DOTALL)
    elif isinstance(error, click.BadParameter) and error.param is not None:
        place, what = error.param.get_error_hint(error.ctx).replace("'", ""), error.message
    elif isinstance(error, click.NoSuchOption | click.exceptions.NoSuchCommand):
        remedy = what.removeprefix(error.message).strip() + " "
        what = f"there is no {error.message[8:].strip('.')}"
    path = error.ctx.command_path if error.ctx else "ldpbeam"
    remedy = f"{remedy}See {path} --help.".strip()
    return option_error(what[:1].lower() + what[1:].rstrip("."), remedy, place)


def main(command: click.Command = cli) -> None:
    """Run the command line, or a command: errors become one line and an exit code, without a traceback."""
    try:
        returned = command.main(standalone_mode=False)
        sys.exit(returned if isinstance(returned, int) else 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("ldpbeam: interrupted. [E-INTERRUPTED]", err=True)
        sys.exit(INTERRUPTED)
    except click.UsageError as error:
        click.echo(f"ldpbeam: {_usage_error(error)}", err=True)
        sys.exit(UsageError.exit_code)
    except LdpError as error:
        click.echo(f"ldpbeam: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        from ldpbeam.cli.shared.failures import outside_error

        known = outside_error(error)
        if known is not None:
            click.echo(f"ldpbeam: {known}", err=True)
            sys.exit(known.exit_code)
        if os.environ.get("LDPBEAM_DEBUG") == "1":
            import traceback

            traceback.print_exc()
        text = clean(" ".join(f"{type(error).__name__}: {error}".split()), 300)
        advice = "Set LDPBEAM_DEBUG=1 to see where, and please report it."
        click.echo(f"ldpbeam: {text}. {advice} [E-INTERNAL]", err=True)
        sys.exit(LdpError.exit_code)


if __name__ == "__main__":
    main()
