"""The command ``ldpbeam``, also as ``python -m ldpbeam``."""

from __future__ import annotations

import sys
from typing import NoReturn

from ldpbeam import __version__
from ldpbeam.errors import UsageError, extra_error

_HELP = """\
Usage: ldpbeam [OPTIONS] COMMAND [ARGS]...

  Statistics from devices under local differential privacy, again and again over time.

  This installation has what a device needs: from ldpbeam import Device. The commands need
  more: pip install 'ldpbeam[pipeline]'; the page of results 'ldpbeam[page]', the collector
  'ldpbeam[collect]'.

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
    except UsageError as error:  # a checkout without links
        _end(error)
    command()


def _end(error: UsageError) -> NoReturn:
    sys.stderr.write(f"ldpbeam: {error}\n")
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
