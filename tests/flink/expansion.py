"""Beam's expansion service for the Java connectors of Kafka and Pub/Sub."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.flink.cluster import JAVA, Process, free_port
from tests.flink.fetch import connectors

__all__ = ["ExpansionService"]


class ExpansionService(Process):
    """Beam's expansion service; what it expands runs in Java workers that TaskManagers start as processes."""

    def __init__(self, folder: Path) -> None:
        """Start it."""
        folder.mkdir(parents=True)
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        boot = folder / "boot"
        boot.write_text(
            f"#!/bin/sh\nexport PYTHONPATH={REPOSITORY} LDPBEAM_JAVA_WORKER='{connectors()}'\n"
            f'exec {sys.executable} -m tests.flink.java_worker "$@"\n'
        )
        boot.chmod(0o755)
        command = [*JAVA, "-Xmx384m", "-cp", connectors()]
        command += ["org.apache.beam.sdk.expansion.service.ExpansionService", str(port)]
        # Splittable reading in Java stays silent on Flink; the older way of reading works.
        command += ["--experiments=use_deprecated_read", "--defaultEnvironmentType=PROCESS"]
        command.append(f"--defaultEnvironmentConfig={json.dumps({'command': os.fspath(boot)})}")
        super().__init__(command, folder / "expansion.log")
        self.await_port(port)
