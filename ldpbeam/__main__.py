"""The command ``ldpbeam``, also as ``python -m ldpbeam``."""

from __future__ import annotations

import sys

from ldpbeam.errors import extra_error


def main() -> None:
    """Run the command line; a command whose part is not installed says which, and exits with 2."""
    try:
        from ldpbeam.pipelines.garbage import collect_rarely

        collect_rarely()
        from ldpbeam.pipelines.commands.main import main as command
    except ModuleNotFoundError as error:
        said = extra_error(error)
        if said is None:
            raise
        sys.stderr.write(f"ldpbeam: {said}\n")
        sys.exit(said.exit_code)
    command()


if __name__ == "__main__":
    main()
