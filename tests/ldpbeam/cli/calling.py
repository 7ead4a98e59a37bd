"""Commands called in this process, and what they print."""

from __future__ import annotations

import csv
import io

from click.testing import CliRunner, Result

from ldpbeam.cli.main import cli


def call(*arguments: object) -> Result:
    """A command as on the command line."""
    return CliRunner().invoke(cli, list(map(str, arguments)))


def told(*arguments: object) -> str:
    """What a command prints, where it ends well; its error is raised."""
    done = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, (arguments, done.output)
    return done.stdout


def rows(*arguments: object) -> list[dict[str, str]]:
    """The table that a command prints as CSV."""
    done = call(*arguments)
    assert done.exit_code == 0, done.exception
    return list(csv.DictReader(io.StringIO(done.stdout)))
