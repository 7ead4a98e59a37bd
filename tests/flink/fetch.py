"""Java archives that the Flink suite runs on, fetched by Maven into `.cache/flink`.

A folder is renamed into place when it is complete, so an interrupted download is never used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from tests.conftest import REPOSITORY

CACHE = REPOSITORY / ".cache" / "flink"
FLINK_MINOR = os.environ.get("LDPBEAM_FLINK") or "1.19"
FLINK = {"1.19": "1.19.3", "1.20": "1.20.5"}[FLINK_MINOR]
KAFKA = "3.9.1"
ASSEMBLED = "2.70.0"
"""Newest Beam release of which all parts of a job server can be had one by one."""
OLDER = "2.65.0"
"""Newest release of those parts of Beam's Java that partial mirrors do not have as new."""
JAMM = "com.github.jbellis:jamm:0.4.0"  # the Java worker measures its cache with it
SLF4J = "org.slf4j:slf4j-simple:"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def job_server() -> Path:
    """Beam's Flink job server, assembled of its parts, since mirrors often lack the whole."""
    flink = ("clients", "core", "java", "metrics-core", "runtime", "statebackend-rocksdb", "streaming-java")
    beam = (
        "runners-flink-1.19",  # the newest there is; what ran on 1.19 runs on 1.20
        "sdks-java-expansion-service",
        # Sources run inside Flink (see expansion.py), so the job server brings the connectors along.
        "sdks-java-io-kafka",
        "sdks-java-io-google-cloud-platform",
    )
    folder = _fetch(
        f"job-server-{FLINK_MINOR}-{ASSEMBLED}-assembled",
        *(f"org.apache.flink:flink-{part}:{FLINK}" for part in flink),  # what comes first decides on versions
        *(f"org.apache.beam:beam-{part}:{ASSEMBLED}" for part in beam),
        f"org.apache.beam:beam-runners-java-job-service:{OLDER}",
        f"org.apache.kafka:kafka-clients:{KAFKA}",
        JAMM,
        f"{SLF4J}2.0.16",
        main="org.apache.beam.runners.flink.FlinkJobServerDriver",
    )
    return folder / "main.jar"


def connectors() -> str:
    """Class path of Beam's expansion service with its connectors, and of the Java worker."""
    return str(job_server().parent / "*")


def calls_from_java() -> str:
    """Class path with which a pipeline of Java calls a transform of Python."""
    java = f"org.apache.beam:beam-sdks-java-extensions-python:{OLDER}"
    return str(_fetch(f"calls-{OLDER}", java, f"{SLF4J}1.7.36") / "*")


def iceberg() -> str:
    """Class path of an expansion service that writes Iceberg tables, and of its Java worker."""
    parts = ("io-iceberg", "expansion-service", "harness", "managed")
    names = [f"org.apache.beam:beam-sdks-java-{part}:{OLDER}" for part in parts]
    hadoop = "org.apache.hadoop:hadoop-client-runtime:3.3.5"
    return str(_fetch(f"iceberg-{OLDER}", *names, hadoop, JAMM, f"{SLF4J}2.0.16") / "*")


def flink() -> str:
    """Class path of a JobManager and a TaskManager."""
    parts = ("runtime-web", "clients", "streaming-java", "statebackend-rocksdb")
    names = [f"org.apache.flink:flink-{part}:{FLINK}" for part in parts]
    return str(_fetch(f"flink-{FLINK}", *names, f"{SLF4J}1.7.36") / "*")


def kafka() -> str:
    """Class path of a Kafka broker (without ZooKeeper)."""
    return str(_fetch(f"kafka-{KAFKA}", f"org.apache.kafka:kafka_2.13:{KAFKA}", f"{SLF4J}1.7.36") / "*")


def _fetch(folder: str, *coordinates: str, main: str = "") -> Path:
    """Archives of the coordinates and of all they need; `main.jar` starts the class `main` with them."""
    if (CACHE / folder).exists():
        return CACHE / folder
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="part-") as name:
        part, pom = Path(name, "jars"), Path(name, "pom.xml")
        pom.write_text(_pom(coordinates))
        command = ["mvn", "-B", "-q", "--strict-checksums", "-f", str(pom), COPY, "-DincludeScope=runtime"]
        brief = {"MAVEN_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"} | os.environ
        done = subprocess.run(
            [*command, f"-DoutputDirectory={part}"], capture_output=True, text=True, check=False, env=brief
        )
        assert done.returncode == 0, f"Maven could not fetch {coordinates}: {done.stdout[-2000:]}"
        if main:
            _write_starter(part / "main.jar", main, sorted(jar.name for jar in part.glob("*.jar")))
        shutil.move(part, CACHE / folder)
    return CACHE / folder


def _pom(coordinates: tuple[str, ...]) -> str:
    lines = []
    for coordinate in coordinates:
        group, artifact, release = coordinate.split(":")
        lines.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{release}</version><exclusions>"
            # Optional parts of the Kafka connector that only another repository has.
            "<exclusion><groupId>io.confluent</groupId><artifactId>*</artifactId></exclusion>"
            "</exclusions></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>none</groupId><artifactId>none</artifactId><version>0</version>"
        f"<dependencies>{''.join(lines)}</dependencies></project>"
    )


def _write_starter(jar: Path, main: str, others: list[str]) -> None:
    """An archive that holds only its manifest: which class to start, and the archives beside it."""
    path = f"Class-Path: {' '.join(others)}"
    # A line of a manifest has 72 bytes at most and goes on after a space.
    folded = [path[:70], *(f" {path[i : i + 69]}" for i in range(70, len(path), 69))]
    with zipfile.ZipFile(jar, "w") as archive:
        lines = ["Manifest-Version: 1.0", f"Main-Class: {main}", *folded, "", ""]
        archive.writestr("META-INF/MANIFEST.MF", "\r\n".join(lines))
