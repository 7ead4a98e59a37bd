"""Java archives that the Flink suite runs on, fetched by Maven as the machine has it set up.

Everything lies below `.cache/flink` of the checkout: a folder per set of archives, with the SHA-256 of each.
A folder is renamed into place when it is complete, so an interrupted download is never used, and its sums
are checked before every use. `python -m tests.flink.fetch` fetches all and says what it has.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from tests.conftest import REPOSITORY

__all__ = ["FLINK_MINOR", "FetchError", "JobServer", "connectors", "flink", "job_server", "kafka"]

CACHE = REPOSITORY / ".cache" / "flink"

FLINK_MINOR = "1.19"
"""The one Flink line that both job servers below are made for."""

FLINK = "1.19.3"
KAFKA = "3.9.1"
ASSEMBLED = "2.62.0"
"""Beam release from whose runner a job server is put together where no ready one can be had."""

WITH_PARTS = (
    f"org.apache.kafka:kafka-clients:{KAFKA}",
    "com.github.jbellis:jamm:0.4.0",  # the Java worker measures its cache with it
    "org.slf4j:slf4j-simple:1.7.30",
)
"""What the parts expect and do not name."""

DRIVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
# Optional parts of the Kafka connector that only another repository has.
_REST = "<exclusion><groupId>io.confluent</groupId><artifactId>*</artifactId></exclusion>"
ELSEWHERE = f"<exclusions>{_REST}</exclusions>"
SUMS = "SHA256SUMS"
INSTALL = "On Debian: apt-get install openjdk-17-jdk-headless maven"


class FetchError(RuntimeError):
    """Something could not be fetched; the message says what to do."""


class _AbsentError(FetchError):
    """The repository answers, and does not hold the archive."""


@dataclass(frozen=True)
class JobServer:
    """Beam's Flink job server as an archive that `java -jar` starts.

    Attributes:
        jar: the archive.
        beam: the Beam release it was built from.
        exact: whether that is the release installed here.
    """

    jar: Path
    beam: str
    exact: bool


def job_server() -> JobServer:
    """The job server of the installed Beam; where the repository has none, one put together.

    Beam publishes a ready archive per release and Flink line. A repository that mirrors Maven Central in part
    may lack it; the runner it is made of and all that this needs can be there nevertheless, in an
    older release. The protocol between the two is kept compatible by Beam, but a mismatch is
    a mismatch: the suite says which it ran on.
    """
    installed = version("apache-beam")
    name = f"beam-runners-flink-{FLINK_MINOR}-job-server"
    ready = CACHE / f"job-server-{installed}"
    assembled = CACHE / f"beam-{ASSEMBLED}-assembled"
    if not (assembled / SUMS).exists():
        try:
            _fetch(ready, [f"org.apache.beam:{name}:{installed}"])
        except _AbsentError:
            parts = (f"beam-runners-flink-{FLINK_MINOR}", "beam-sdks-java-io-kafka")
            coordinates = [*(f"org.apache.beam:{part}:{ASSEMBLED}" for part in parts), *WITH_PARTS]
            _fetch(assembled, coordinates, main=DRIVER)
    if (ready / SUMS).exists():
        return JobServer(_fetch(ready, []) / f"{name}-{installed}.jar", installed, exact=True)
    return JobServer(_fetch(assembled, []) / "main.jar", ASSEMBLED, exact=False)


def connectors() -> str:
    """Class path of Beam's expansion service with Kafka, and of the Java worker that runs what it expands."""
    server = job_server()
    if not server.exact:
        return str(server.jar.parent / "*")
    name = "beam-sdks-java-io-expansion-service"
    folder = CACHE / f"expansion-{server.beam}"
    return str(_fetch(folder, [f"org.apache.beam:{name}:{server.beam}"]) / f"{name}-{server.beam}.jar")


def flink() -> Path:
    """A folder of archives that a JobManager and a TaskManager start from."""
    group, log = "org.apache.flink", "org.slf4j:slf4j-simple:1.7.36"
    parts = ("flink-runtime-web", "flink-clients", "flink-streaming-java", "flink-statebackend-rocksdb")
    return _fetch(CACHE / f"flink-{FLINK}", [*(f"{group}:{part}:{FLINK}" for part in parts), log])


def kafka() -> Path:
    """A folder of archives that one Kafka broker (without ZooKeeper) starts from."""
    coordinates = [f"org.apache.kafka:kafka_2.13:{KAFKA}", "org.slf4j:slf4j-simple:1.7.36"]
    return _fetch(CACHE / f"kafka-{KAFKA}", coordinates)


def _fetch(folder: Path, coordinates: Sequence[str], main: str = "") -> Path:
    """Archives of the coordinates and of all they need, complete and unharmed.

    With `main`, an archive `main.jar` that starts this class with the others beside it.
    """
    if (folder / SUMS).exists():
        _check(folder)
        return folder
    _require_java()
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="part-") as name:
        part = Path(name) / "jars"
        pom = Path(name) / "pom.xml"
        pom.write_text(_pom(coordinates))
        command = ["mvn", "-B", "-q", "--strict-checksums", "-f", str(pom), COPY]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={part}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            _explain(done.stdout + done.stderr, coordinates)
        jars = sorted(part.glob("*.jar"))
        if main:
            _write_starter(part / "main.jar", main, [jar.name for jar in jars])
        sums = (f"{_sha256(jar)}  {jar.name}\n" for jar in sorted(part.glob("*.jar")))
        (part / SUMS).write_text("".join(sums))
        shutil.rmtree(folder, ignore_errors=True)  # left without its sums
        part.rename(folder)
    return folder


def _require_java() -> None:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise FetchError(f"the Flink suite needs {tool}, which is not installed. {INSTALL}")
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or not 11 <= int(found[1]) <= 17:
        raise FetchError(f"Flink {FLINK_MINOR} needs Java 11 to 17; this is {told.strip()!r}. {INSTALL}")


def _explain(output: str, coordinates: Sequence[str]) -> NoReturn:
    """What Maven's failure means.

    Raises:
        FetchError: always.
    """
    errors = [line for line in output.splitlines() if "ERROR" in line]
    told = errors[0] if errors else output[-500:]
    # "was not found in" is what Maven says when it remembers an earlier answer.
    if "Could not find artifact" in told or "was not found in" in told:
        raise _AbsentError(f"the Maven repository has no {', '.join(coordinates)}: {told}")
    raise FetchError(f"Maven could not fetch {', '.join(coordinates)}: {told}")


def _pom(coordinates: Sequence[str]) -> str:
    lines = []
    for coordinate in coordinates:
        group, artifact, release = coordinate.split(":")
        lines.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{release}</version>{ELSEWHERE}</dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>none</groupId><artifactId>none</artifactId><version>0</version>"
        f"<dependencies>{''.join(lines)}</dependencies></project>"
    )


def _write_starter(jar: Path, main: str, others: Sequence[str]) -> None:
    """An archive that holds only its manifest: which class to start, and the archives beside it."""
    path = f"Class-Path: {' '.join(others)}"
    # A line of a manifest has 72 bytes at most and goes on after a space.
    folded = [path[:70], *(f" {path[i : i + 69]}" for i in range(70, len(path), 69))]
    lines = ["Manifest-Version: 1.0", f"Main-Class: {main}", *folded, "", ""]
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "\r\n".join(lines))


def _check(folder: Path) -> None:
    for line in (folder / SUMS).read_text().splitlines():
        expected, name = line.split("  ")
        path = folder / name
        if not path.exists() or _sha256(path) != expected:
            raise FetchError(f"{path} is not what was fetched; delete {folder} and run make flink again")


@cache
def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def main() -> None:
    """Fetch everything and say so."""
    server = job_server()
    sys.stdout.write(f"Flink {FLINK} in {flink().relative_to(REPOSITORY)}\n")
    sys.stdout.write(f"job server of Beam {server.beam} in {server.jar.relative_to(REPOSITORY)}\n")
    if not server.exact:
        sys.stdout.write(
            f"note: the Maven repository has no job server of Beam {version('apache-beam')};"
            f" one was put together from the runner of Beam {server.beam}\n"
        )


if __name__ == "__main__":
    try:
        main()
    except FetchError as error:
        sys.exit(f"error: {error}")
