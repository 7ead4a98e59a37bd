"""Java archives that the Flink suite runs on, fetched by Maven as the machine has it set up.

Everything lies below `.cache/flink` of the checkout: a folder per set of archives, with the SHA-256 of each.
A folder is renamed into place when it is complete, so an interrupted download is never used, and its sums
are checked before every use.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from tests.conftest import REPOSITORY

__all__ = [
    "FLINK_MINOR",
    "FetchError",
    "JobServer",
    "calls_from_java",
    "connectors",
    "flink",
    "iceberg",
    "job_server",
    "kafka",
]

CACHE = REPOSITORY / ".cache" / "flink"

LINES = {"1.19": "1.19.3", "1.20": "1.20.5"}
"""Flink lines that the suite runs on, and the release of each."""

FLINK_MINOR = os.environ.get("LDPBEAM_FLINK") or "1.19"
"""The line of this run; LDPBEAM_FLINK chooses it."""

KAFKA = "3.9.1"

RUNNER_LINE = "1.19"
"""The line that the newest runner was compiled for. Flink promises that what ran on 1.19 runs on 1.20."""

ASSEMBLED = "2.70.0"
"""Newest Beam release of which all parts of a job server can be had one by one."""

JOB_SERVICE = "2.65.0"
"""Newest release of the one part, beam-runners-java-job-service, that has no release as new as the rest."""

EXTENSIONS = "2.65.0"
"""Newest release of beam-sdks-java-extensions-python that was found in a partial repository."""

ICEBERG = "2.65.0"
"""Newest release of beam-sdks-java-io-iceberg that was found in a partial repository."""

WITH_PARTS = (
    f"org.apache.kafka:kafka-clients:{KAFKA}",
    "com.github.jbellis:jamm:0.4.0",  # the Java worker measures its cache with it
    "org.slf4j:slf4j-simple:2.0.16",
)
"""What the parts expect and do not name."""

FLINK_PARTS = (
    "flink-clients",
    "flink-core",
    "flink-java",
    "flink-metrics-core",
    "flink-runtime",
    "flink-statebackend-rocksdb",
    "flink-streaming-java",
)
"""What a job server has of Flink itself."""

DRIVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
# Optional parts of the Kafka connector that only another repository has.
_REST = "<exclusion><groupId>io.confluent</groupId><artifactId>*</artifactId></exclusion>"
ELSEWHERE = f"<exclusions>{_REST}</exclusions>"
SUMS = "SHA256SUMS"
BRIEF = {"MAVEN_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
"""Maven reads thousands of small files once; the optimising compiler would cost more than its code saves."""
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


def release() -> str:
    """The Flink release of this run.

    Raises:
        FetchError: LDPBEAM_FLINK names a line that the suite does not know.
    """
    if FLINK_MINOR not in LINES:
        known = ", ".join(LINES)
        raise FetchError(f"LDPBEAM_FLINK={FLINK_MINOR}: the suite knows Flink {known}; choose one of them")
    return LINES[FLINK_MINOR]


def job_server() -> JobServer:
    """The job server of the installed Beam; where the repository has none, one put together.

    Beam publishes a ready archive per release and Flink line. A repository that mirrors Maven Central in part
    may lack it; the parts it is made of can be there nevertheless, each up to another release. The
    protocol between the two is kept compatible by Beam, but a mismatch is a mismatch: the suite says
    which it ran on.
    """
    installed = version("apache-beam")
    name = f"beam-runners-flink-{FLINK_MINOR}-job-server"
    ready = CACHE / f"job-server-{FLINK_MINOR}-{installed}"
    assembled = CACHE / f"job-server-{FLINK_MINOR}-{ASSEMBLED}-assembled"
    if not (assembled / SUMS).exists():
        try:
            _fetch(ready, [f"org.apache.beam:{name}:{installed}"])
        except _AbsentError:
            _fetch(assembled, _parts(), main=DRIVER)
    if (ready / SUMS).exists():
        return JobServer(_fetch(ready, []) / f"{name}-{installed}.jar", installed, exact=True)
    return JobServer(_fetch(assembled, []) / "main.jar", ASSEMBLED, exact=False)


def _parts() -> list[str]:
    """Coordinates of all that a job server is made of; what comes first decides about versions."""
    beam = (
        f"beam-runners-flink-{RUNNER_LINE}",
        "beam-sdks-java-expansion-service",
        # Sources run inside Flink (see expansion.py), so the job server brings the connectors along.
        "beam-sdks-java-io-kafka",
        "beam-sdks-java-io-google-cloud-platform",
    )
    return [
        *(f"org.apache.flink:{part}:{release()}" for part in FLINK_PARTS),
        *(f"org.apache.beam:{part}:{ASSEMBLED}" for part in beam),
        f"org.apache.beam:beam-runners-java-job-service:{JOB_SERVICE}",
        *WITH_PARTS,
    ]


def connectors() -> str:
    """Class path of Beam's expansion service with its connectors, and of the Java worker."""
    server = job_server()
    if not server.exact:
        return str(server.jar.parent / "*")
    folder = CACHE / f"expansion-{server.beam}"
    names = [f"beam-sdks-java-io-{part}expansion-service" for part in ("", "google-cloud-platform-")]
    _fetch(folder, [f"org.apache.beam:{name}:{server.beam}" for name in names])
    return os.pathsep.join(str(folder / f"{name}-{server.beam}.jar") for name in names)


def calls_from_java() -> Path:
    """A folder of archives with which a pipeline of Java calls a transform of Python."""
    name = "org.apache.beam:beam-sdks-java-extensions-python"
    return _fetch(CACHE / f"calls-{EXTENSIONS}", [f"{name}:{EXTENSIONS}", "org.slf4j:slf4j-simple:1.7.36"])


def iceberg() -> Path:
    """A folder of archives of an expansion service that writes Iceberg tables, and of its Java worker."""
    parts = ("io-iceberg", "expansion-service", "harness", "managed")
    with_parts = (
        "org.apache.hadoop:hadoop-client-runtime:3.3.5",
        "com.github.jbellis:jamm:0.4.0",
        "org.slf4j:slf4j-simple:2.0.16",
    )
    names = [f"org.apache.beam:beam-sdks-java-{part}:{ICEBERG}" for part in parts]
    return _fetch(CACHE / f"iceberg-{ICEBERG}", [*names, *with_parts])


def flink() -> Path:
    """A folder of archives that a JobManager and a TaskManager start from."""
    group, log = "org.apache.flink", "org.slf4j:slf4j-simple:1.7.36"
    parts = ("flink-runtime-web", "flink-clients", "flink-streaming-java", "flink-statebackend-rocksdb")
    coordinates = [*(f"{group}:{part}:{release()}" for part in parts), log]
    return _fetch(CACHE / f"flink-{release()}", coordinates)


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
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=BRIEF | os.environ)
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
