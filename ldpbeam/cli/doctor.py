"""The command ``doctor``: whether this machine has what a run needs, with a fix per line."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.errors import LdpError
from ldpbeam.job.config import resolve_runner
from ldpbeam.text import clean

EMULATOR = "PUBSUB_EMULATOR_HOST"
_WAIT = 3.0  # seconds for a peer to answer
_NEEDS = {
    "pipeline": "run, simulate and nearly every command",
    "page": "report and demo",
    "gcp": "Pub/Sub, BigQuery and Dataflow",
    "collect": "collect",
}
"""Extras of the distribution, and what needs them."""


@click.command(cls=PrintingCommand)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where results are to go: whether it can be written. Default: here.",
)
@click.option("--runner", metavar="NAME", help="The runner that is to run; says which one really would.")
def doctor(output: Path, runner: str | None) -> None:
    """Look at versions, runner, disk and emulator, and say what mends each fault.

    Exit code 0: nothing that was asked for is at fault. 6: something is; its line says what to do.
    """
    findings = list(examine(output, runner))
    for one in findings:
        say(f"{one.state:5}  {one.name}: {one.detail}{f'. Fix: {one.fix}' if one.fix else ''}")
    faults = [one for one in findings if one.state == "fault"]
    found = [asdict(one) for one in findings]
    deliver({"schema": "ldpbeam.doctor/1", "faults": len(faults), "findings": found})
    if faults:
        names = ", ".join(one.name for one in faults)
        raise LdpError("E-DOCTOR-FAULT", f"{len(faults)} at fault: {names}", remedy=faults[0].fix + ".")


@dataclass(frozen=True)
class Finding:
    """A line of the report; ``state`` is ok, fault, or note for what only some commands need."""

    name: str
    state: str
    detail: str
    fix: str = ""


def examine(output: Path, runner: str | None = None) -> Iterator[Finding]:
    """Every finding, one after the other; no Beam is imported."""
    text = f"{platform.python_version()} at {sys.executable}, {os.cpu_count()} cores"
    yield Finding("python", "ok", text)
    yield Finding("ldpbeam", "ok", metadata.version("ldpbeam"))
    yield from map(_extra, _NEEDS)
    yield _runner(runner)
    yield _written(output.absolute())
    yield _emulator(os.environ.get(EMULATOR, ""))


def _extra(extra: str) -> Finding:
    """The versions that are installed, and those that the extra asks for."""
    from packaging.requirements import Requirement

    known, absent, unfit = [], [], []
    for one in map(Requirement, metadata.requires("ldpbeam") or ()):
        asked = [one.marker is None or one.marker.evaluate({"extra": name}) for name in (extra, "")]
        if one.name == "ldpbeam" or asked != [True, False]:
            continue
        try:
            version = metadata.version(one.name)
        except metadata.PackageNotFoundError:
            absent.append(one.name)
            continue
        known.append(f"{one.name} {version}")
        if not one.specifier.contains(version):
            unfit.append(f"{one.name} {version} is not {one.specifier}")
    if extra == "gcp" and not absent and not _has_pubsub():
        absent.append("apache-beam[gcp]")
    fix = f"pip install 'ldpbeam[{extra}]'"
    if unfit:
        return Finding(extra, "fault", "; ".join(unfit), fix)
    if absent:
        state = "fault" if extra == "pipeline" else "note"
        return Finding(extra, state, f"{', '.join(absent)} not installed, which {_NEEDS[extra]} need", fix)
    return Finding(extra, "ok", ", ".join(known))


def _has_pubsub() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("google.cloud.pubsub_v1") is not None
    except ModuleNotFoundError:
        return False


def _runner(typed: str | None) -> Finding:
    resolved = resolve_runner(typed)
    option = typed or "no --runner"
    if resolved == "FnApiRunner":
        text = f"{option} means {resolved}, the local runner: in this process, with nothing downloaded"
        return Finding("runner", "ok", f"{text}; --subscription and --watch run on the local engine")
    text = f"{option} means {resolved}, which is another program than this one"
    if resolved in {"FlinkRunner", "SparkRunner"} and shutil.which("java") is None:
        fix = "install a Java runtime, 11 or 17, on the PATH"
        return Finding("runner", "fault", f"{text}, and needs java, which is not there", fix)
    return Finding("runner", "ok", text)


def _written(there: Path) -> Finding:
    """Whether a file can be written, in the folder that is there already."""
    while not there.exists():
        there = there.parent
    try:
        with TemporaryFile(dir=there) as file:
            file.write(b"ldpbeam")
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(there).free
    except OSError as error:
        why = f"cannot write below {there} ({error.strerror or type(error).__name__})"
        return Finding("write", "fault", why, "choose an --output that you may write to")
    return Finding("write", "ok", f"can write below {there}, with {free / 2**30:,.1f} GiB free")


def _emulator(address: str) -> Finding:
    if not address:
        return Finding("emulator", "ok", f"{EMULATOR} is not set: --subscription asks Pub/Sub itself")
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_WAIT).close()
    except (OSError, ValueError, OverflowError) as error:
        fix = f"start it, or unset {EMULATOR} to use Pub/Sub itself"
        why = getattr(error, "strerror", None) or type(error).__name__
        text = f"{EMULATOR} = {clean(address, 100)}: does not answer ({why})"
        return Finding("emulator", "fault", text, fix)
    return Finding("emulator", "ok", f"{EMULATOR} = {clean(address, 100)} answers")
