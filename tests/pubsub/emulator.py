"""Pub/Sub on this machine: Google's emulator where it is installed, else Google's fake for Go programs.

The emulator is a component of the Google Cloud CLI and needs Java; the fake is a package of the Go client
library, which the Go toolchain fetches and builds. LDPBEAM_PUBSUB_EMULATOR chooses one (``official`` or
``pstest``), LDPBEAM_PUBSUB_EMULATOR_JAR names the emulator's jar.

They differ where it matters to tests: version 0.8.20 of the emulator does not notice that a streaming pull
was cancelled or its client killed, and goes on to hand every second redelivery to it, for one lease each;
the fake does not end the streams of a subscription that is deleted.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

SOURCE = Path(__file__).parent / "pstest"
COMPONENT = Path("platform") / "pubsub-emulator" / "lib"
INSTALLATIONS = (
    "/usr/lib/google-cloud-sdk",
    "/usr/share/google-cloud-sdk",
    "/usr/local/google-cloud-sdk",
    "/opt/google-cloud-sdk",
    "/snap/google-cloud-cli/current",
    "/opt/homebrew/share/google-cloud-sdk",
    "~/google-cloud-sdk",
)


@dataclass(frozen=True)
class Emulator:
    """A running one."""

    host: str
    exact: bool


def jar() -> Path | None:
    """The emulator's jar, from the environment, beside gcloud, or from the usual places."""
    named = os.environ.get("LDPBEAM_PUBSUB_EMULATOR_JAR")
    if named:
        return Path(named) if Path(named).is_file() else None
    gcloud = shutil.which("gcloud")
    beside = [Path(gcloud).resolve().parents[1]] if gcloud else []
    for root in (*beside, *(Path(place).expanduser() for place in INSTALLATIONS)):
        found = sorted((root / COMPONENT).glob("cloud-pubsub-emulator-*.jar"))
        if found:
            return found[-1]
    return None


@contextmanager
def emulator(scratch: Path, wanted: str = "") -> Iterator[Emulator]:
    """Pub/Sub for the duration of a block; fails the test where there is none."""
    wanted = os.environ.get("LDPBEAM_PUBSUB_EMULATOR") or wanted
    path, java, go = jar(), shutil.which("java"), shutil.which("go")
    if path and java and wanted in {"", "official"}:
        with _official(java, path, scratch) as host:
            yield Emulator(host, exact=False)
    elif go and wanted in {"", "pstest"}:
        with _pstest(go, scratch) as host:
            yield Emulator(host, exact=True)
    else:  # a failure, not a skip: who asked for these tests wants them run
        pytest.fail(
            f"no Pub/Sub on this machine (wanted {wanted or 'any'}; jar {path}, java {java}, go {go}). "
            "Install Java and the emulator (gcloud components install pubsub-emulator, or the Debian package "
            "google-cloud-cli-pubsub-emulator), or Go 1.24."
        )


@contextmanager
def _official(java: str, path: Path, scratch: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = scratch / "emulator.log"
    command = [java, "-Xmx1g", "-jar", str(path), "--host=127.0.0.1", f"--port={port}"]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            end = time.monotonic() + PATIENCE
            while b"Server started" not in log.read_bytes():
                if process.poll() is not None or time.monotonic() > end:
                    pytest.fail(f"the Pub/Sub emulator did not start:\n{log.read_text('utf-8')[-2000:]}")
                time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


@contextmanager
def _pstest(go: str, scratch: Path) -> Iterator[str]:
    binary = scratch / "pstest"
    built = subprocess.run(
        [go, "build", "-buildvcs=false", "-o", str(binary), "."],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        pytest.fail(f"Google's Pub/Sub fake for Go was not built:\n{built.stderr[-2000:]}")
    with subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().strip()
        finally:
            process.kill()
