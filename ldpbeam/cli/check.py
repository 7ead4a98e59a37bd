"""The command ``check``: what collections promise and cost, and what a change of one means."""

from __future__ import annotations

from pathlib import Path

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say


@click.command(cls=PrintingCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--devices",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    metavar="N",
    help="Devices that report in an epoch: errors are stated for so many.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="OLD",
    help="An earlier file: what has changed since.",
)
def check(files: tuple[Path, ...], devices: int, against: Path | None) -> None:
    """Check collections before devices have them: promise, digest, expected errors, warnings.

    Several files count as those of one fleet, and check says what a device loses by all of them. With
    --against, a change that devices must know about needs a new version, else the exit code is 3.
    """
    from ldpbeam.cli.shared.collections import load, warn
    from ldpbeam.collection.file import load_collection
    from ldpbeam.errors import LdpError, UsageError
    from ldpbeam.planning.collection_check import (
        CheckedCollection,
        advice_in_use,
        change,
        change_lines,
        require_new_version,
        together,
        together_lines,
    )

    if against is not None and len(files) != 1:
        raise UsageError(
            "E-USAGE-COLLECTION",
            "--against compares one file with an earlier one",
            remedy="Give one file, and the earlier one with --against.",
        )
    checks: list[CheckedCollection] = []
    refused: list[LdpError] = []
    for path in files:
        try:
            checks.append(CheckedCollection.of(str(path), load(path), devices))
            warn(path, advice_in_use(checks[-1].collection, devices))
        except LdpError as error:
            refused.append(error)
    if refused:
        # Whoever mends one file wants to know of the others. The last error goes the way of every error.
        for earlier in refused[:-1]:
            click.echo(f"ldpbeam: {earlier}", err=True)
        raise refused[-1]
    document: dict[str, object] = {
        "schema": "ldpbeam.check/1",
        "collections": [one.as_record() for one in checks],
    }
    for one in checks:
        say(*one.lines())
    collections = [one.collection for one in checks]
    if len(collections) > 1:
        document["together"] = together(collections)
        say(*together_lines(collections))
    if against is not None:
        old, new = load_collection(against), collections[0]
        require_new_version(old, new)
        differs = change(old, new)
        document["change"] = {"devices": differs.devices, "server": differs.server}
        say(*change_lines(old, new))
    deliver(document)
