"""The command ``ldpbeam``, also as ``python -m ldpbeam``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from ldpbeam import __version__
from ldpbeam.errors import UsageError, extra_error

_HELP = f"""\
Usage: ldpbeam [OPTIONS] COMMAND [ARGS]...

  Statistics from devices under local differential privacy, again and again over time.

  This installation has what a device needs: from ldpbeam import Device. The commands need
  more: pip install 'ldpbeam[pipeline]'; the page of results 'ldpbeam[page]', the collector
  'ldpbeam[collect]'. The pages of the documentation are in
  {Path(__file__).parent}/docs: devices.md, wire.md, privacy.md.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit."""
_ANSWERS = {
    "": _HELP,
    "-h": _HELP,
    "--help": _HELP,
    "--version": f"ldpbeam, version {__version__}",
}
"""What is answered where the command line itself is not installed, as it would answer."""


def main() -> None:
    """Run the command line; a command whose part is not installed says which, and exits with 2."""
    if (links := Path(__file__).with_name("transforms")).is_file():
        # As git does by default on Windows.
        _end(
            UsageError(
                "E-USAGE-CHECKOUT",
                "a link of the repository, which git wrote as a plain file",
                where=str(links),
                remedy="Run git config core.symlinks true and git checkout -- ldpbeam (on Windows in "
                "developer mode), or pip install ldpbeam.",
            )
        )
    try:
        from ldpbeam.host.memory import collect_rarely

        collect_rarely()
        from ldpbeam.cli.main import main as command
    except ModuleNotFoundError as error:
        message = extra_error(error)
        if message is None:
            raise
        if (answer := _ANSWERS.get(" ".join(sys.argv[1:]))) is not None:
            sys.stdout.write(f"{answer}\n")
            return
        _end(message)
    command()


def _end(error: UsageError) -> NoReturn:
    sys.stderr.write(f"ldpbeam: {error}\n")
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
