"""The command ``doctor``: whether this machine has what a run needs, with a fix per line."""

from __future__ import annotations

from pathlib import Path

import click

from ldpbeam.errors import LdpError

from .support.console import PrintingCommand, deliver, say


@click.command(cls=PrintingCommand)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where results are to go: space, and whether it can be written. Default: here.",
)
@click.option("--runner", metavar="NAME", help="The runner that is to run; says which one really would.")
@click.option("--cluster", metavar="HOST:PORT", help="Ask the REST address of a Flink cluster.")
def doctor(output: Path, runner: str | None, cluster: str | None) -> None:
    """Look at versions, runner, Java, disk, clock, emulator and cluster, and say what mends each fault.

    Exit code 0: nothing that was asked for is at fault. 6: something is; its line says what to do.
    """
    from .support.examination import Asked, State, examine

    findings = []
    for finding in examine(Asked(output, runner, cluster)):
        say(str(finding))
        findings.append(finding)
    faults = [finding for finding in findings if finding.state is State.FAULT]
    deliver(
        {
            "schema": "ldpbeam.doctor/1",
            "faults": len(faults),
            "findings": [
                {"name": one.name, "state": one.state.value, "found": one.found, "fix": one.fix}
                for one in findings
            ],
        }
    )
    if faults:
        names = ", ".join(one.name for one in faults)
        raise LdpError("E-DOCTOR-FAULT", f"{len(faults)} at fault: {names}", remedy=faults[0].fix + ".")
