"""The command ``doctor``: whether this machine has what a run needs, with a fix per line."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.errors import LdpError
from ldpbeam.job.config import resolve_runner
from ldpbeam.text import clean

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@click.command(cls=PrintingCommand)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where results are to go: space, and whether it can be written. Default: here.",
)
@click.option("--runner", metavar="NAME", help="The runner that is to run; says which one really would.")
def doctor(output: Path, runner: str | None) -> None:
    """Look at versions, runner, disk, clock, emulator and credentials, and say what mends each fault.

    Exit code 0: nothing that was asked for is at fault. 6: something is; its line says what to do.
    """
    findings = []
    for finding in examine(output, runner):
        say(str(finding))
        findings.append(finding)
    faults = [finding for finding in findings if finding.state is State.FAULT]
    deliver(
        {
            "schema": "ldpbeam.doctor/1",
            "faults": len(faults),
            "findings": [asdict(finding) for finding in findings],
        }
    )
    if faults:
        names = ", ".join(one.name for one in faults)
        raise LdpError("E-DOCTOR-FAULT", f"{len(faults)} at fault: {names}", remedy=faults[0].fix + ".")


# --- each finding says what was found, and what mends it where something is at fault

EMULATOR = "PUBSUB_EMULATOR_HOST"
_WAIT = 3.0  # seconds for a peer to answer
_LITTLE = 1 << 30  # bytes left on a disk, below which it is worth a word
_LOCAL = "FnApiRunner"
_NEEDS = {
    "pipeline": "run, simulate and nearly every command",
    "page": "report and demo",
    "gcp": "Pub/Sub, BigQuery and Dataflow",
    "collect": "collect",
}
"""Extras of the distribution, and what needs them."""


class State(StrEnum):
    """How a finding is to be taken."""

    OK = "ok"
    NOTE = "note"
    """Not there, and needed by some commands only."""
    FAULT = "fault"
    """What was asked for, or every run needs, does not work."""


@dataclass(frozen=True)
class Finding:
    """What one check of this machine gave: a line of the report."""

    name: str
    state: State
    detail: str
    fix: str = ""

    def __str__(self) -> str:
        fix = f". Fix: {self.fix}" if self.fix else ""
        return f"{self.state:5}  {self.name}: {self.detail}{fix}"


def examine(output: Path, runner: str | None = None) -> Iterator[Finding]:
    """Every finding, one after the other; no Beam is imported."""
    yield _python()
    yield from _distributions()
    yield _runner(runner)
    yield from _disk(output)
    yield _clock()
    yield _emulator(os.environ.get(EMULATOR, ""))
    yield _credentials()


# --- what is installed


def _python() -> Finding:
    text = f"{platform.python_version()} at {sys.executable}, {os.cpu_count()} cores"
    tested = _tested_pythons()
    names = ", ".join(f"{major}.{minor}" for major, minor in tested)
    if sys.version_info[:2] in tested:
        return Finding("python", State.OK, text)
    if sys.version_info[:2] > tested[-1]:
        return Finding("python", State.NOTE, f"{text}; ldpbeam is tested on {names}", f"use Python {names}")
    return Finding("python", State.FAULT, text, f"use Python {names}")


def _tested_pythons() -> list[tuple[int, int]]:
    """The versions that the distribution's classifiers declare, in rising order."""
    begin = "Programming Language :: Python :: 3."
    declared = metadata.metadata("ldpbeam").get_all("Classifier", ())
    return sorted((3, int(one.removeprefix(begin))) for one in declared if one.startswith(begin))


def _distributions() -> Iterator[Finding]:
    """The distribution, then each extra with the versions that are installed and those that it asks for."""
    from packaging.requirements import Requirement

    yield Finding("ldpbeam", State.OK, metadata.version("ldpbeam"))
    wanted = [Requirement(text) for text in metadata.requires("ldpbeam") or ()]
    for extra, needed_by in _NEEDS.items():
        known, absent, unfit = [], [], []
        for one in wanted:
            if one.name == "ldpbeam" or not _is_of(one, extra):
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
            yield Finding(extra, State.FAULT, "; ".join(unfit), fix)
        elif absent:
            state = State.FAULT if extra == "pipeline" else State.NOTE
            text = f"{', '.join(absent)} not installed, which {needed_by} need"
            yield Finding(extra, state, text, fix)
        else:
            yield Finding(extra, State.OK, ", ".join(known))


def _is_of(requirement: Requirement, extra: str) -> bool:
    """Whether an extra asks for it, and nothing else does."""
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _has_pubsub() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("google.cloud.pubsub_v1") is not None
    except ModuleNotFoundError:
        return False


# --- what runs


def _runner(typed: str | None) -> Finding:
    resolved = resolve_runner(typed)
    option = typed or "no --runner"
    if resolved == _LOCAL:
        text = f"{option} means {resolved}, the local runner: in this process, with nothing downloaded"
        return Finding("runner", State.OK, f"{text}; --subscription and --watch run on the local engine")
    text = f"{option} means {resolved}, which is another program than this one"
    if resolved in {"FlinkRunner", "SparkRunner"} and shutil.which("java") is None:
        fix = "install a Java runtime, 11 or 17, on the PATH"
        return Finding("runner", State.FAULT, f"{text}, and needs java, which is not there", fix)
    return Finding("runner", State.OK, text)


# --- where results go


def _disk(folder: Path) -> Iterator[Finding]:
    """Space, and whether a file can be written, forced to disk, renamed and read: what publishing does."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        yield Finding("write", State.FAULT, f"{there} is no folder", "choose another --output")
        return
    free = shutil.disk_usage(there).free
    text = f"{free / 2**30:,.1f} GiB free at {there}"
    if free < _LITTLE:
        yield Finding("disk", State.NOTE, text, "make room, or choose another --output")
    else:
        yield Finding("disk", State.OK, text)
    try:
        seconds = _write(there)
    except OSError as error:
        why = f"cannot write below {there} ({error.strerror or type(error).__name__})"
        yield Finding("write", State.FAULT, why, "choose an --output that you may write to")
    else:
        yield Finding(
            "write", State.OK, f"wrote, forced to disk, renamed and read back in {1000 * seconds:.1f} ms"
        )


def _write(folder: Path) -> float:
    content, begun = os.urandom(4096), time.perf_counter()
    with NamedTemporaryFile(dir=folder, prefix=".ldpbeam-doctor-", delete=False) as file:
        paths = [Path(file.name)]
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            paths.append(paths[0].with_suffix(".renamed"))
            paths[0].rename(paths[1])
            if paths[1].read_bytes() != content:
                raise OSError("what was read is not what was written")
        finally:
            for path in paths:
                path.unlink(missing_ok=True)
    return time.perf_counter() - begun


def _clock() -> Finding:
    """A clock before the newest file of this package is wrong, and reports would come from the future."""
    now, newest = time.time(), Path(__file__).stat().st_mtime
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    if now < newest:
        return Finding("clock", State.FAULT, f"{moment}, before this program was installed", "set the clock")
    return Finding("clock", State.OK, moment)


# --- who is asked


def _emulator(address: str) -> Finding:
    if not address:
        return Finding("emulator", State.OK, f"{EMULATOR} is not set: --subscription asks Pub/Sub itself")
    why = _reachable(address)
    if why:
        fix = f"start it, or unset {EMULATOR} to use Pub/Sub itself"
        return Finding("emulator", State.FAULT, f"{EMULATOR} = {clean(address, 100)}: {why}", fix)
    return Finding("emulator", State.OK, f"{EMULATOR} = {clean(address, 100)} answers")


def _credentials() -> Finding:
    """Where Google's libraries look, without asking them: that would go to the network."""
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", "")
    usual = Path.home() / ".config" / "gcloud" / "application_default_credentials.json"
    fix = "gcloud auth application-default login"
    if named and not Path(named).is_file():
        return Finding("credentials", State.FAULT, "GOOGLE_APPLICATION_CREDENTIALS names no file", fix)
    if named or usual.is_file():
        return Finding(
            "credentials", State.OK, "of Google's cloud are there; whether they are accepted is not asked"
        )
    return Finding(
        "credentials", State.NOTE, "of Google's cloud are not there; Pub/Sub, BigQuery and Dataflow need them"
    )


def _reachable(address: str) -> str:
    """Why nobody answers at HOST:PORT; empty where somebody does."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        return "is not HOST:PORT"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_WAIT):
            return ""
    except OSError as error:
        return f"does not answer ({error.strerror or type(error).__name__})"
