"""The public transform called by a pipeline of Java, as far as its construction: bytes in, rows out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.transforms import FrequencyRow
from tests.conftest import REPOSITORY
from tests.flink.cluster import JAVA, Process, free_port
from tests.flink.fetch import calls_from_java
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.flink, pytest.mark.timeout(PATIENCE)]

TYPES = {str: "STRING", int: "INT64", float: "DOUBLE", Timestamp: "DATETIME", Mapping[str, str]: "MAP"}


def test_java_knows_every_column(tmp_path: Path) -> None:
    """By Java's own types, so that SQL and the connectors of the Java side take the rows as they are."""
    port = free_port()
    command = [sys.executable, "-m", "apache_beam.runners.portability.expansion_service_main"]
    command += [f"--port={port}", "--fully_qualified_name_glob=ldpbeam.transforms.*"]
    service = Process(command, tmp_path / "expansion.log")
    try:
        service.await_port(port)
        program = [*JAVA, "-cp", calls_from_java(), str(Path(__file__).parent / "Call.java")]
        given = [f"localhost:{port}", str(REPOSITORY / "examples" / "first_choice.yaml")]
        done = subprocess.run([*program, *given], capture_output=True, text=True, check=False)
    finally:
        service.kill()
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = []
    for name, annotated in FrequencyRow.__annotations__.items():
        nullable = annotated not in TYPES
        wanted.append(f"{name} {'DOUBLE' if nullable else TYPES[annotated]} {str(nullable).lower()}")
    assert done.stdout.splitlines() == wanted
