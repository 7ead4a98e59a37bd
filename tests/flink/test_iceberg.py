"""Rows of the public transform in an Iceberg table of a local warehouse, written by Beam's Java connector."""

from __future__ import annotations

import json
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam import managed

import ldpbeam
from ldpbeam.admission import batch_message
from ldpbeam.transforms import FrequenciesPerEpoch
from tests.conftest import REPOSITORY
from tests.flink.cluster import JAVA, Process, free_port
from tests.flink.fetch import iceberg
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.flink, pytest.mark.slow, pytest.mark.timeout(PATIENCE)]

SERVICE = "org.apache.beam.sdk.expansion.service.ExpansionService"


def test_rows_become_one_snapshot(tmp_path: Path) -> None:
    """Java reads the schema of the rows and writes all of them."""
    agreed = ldpbeam.load_collection(REPOSITORY / "examples" / "first_choice.yaml")
    sent = ldpbeam.simulate(agreed, ["red"] * 500 + ["blue"] * 400, seed=7)
    warehouse, port = tmp_path / "warehouse", free_port()
    table = {
        "table": "telemetry.frequencies",
        "catalog_name": "local",
        "catalog_properties": {"type": "hadoop", "warehouse": warehouse.as_uri()},
    }
    classes = ["-cp", iceberg(), SERVICE]
    # The writer runs in a Java worker, which the service starts beside itself.
    service = Process(
        [*JAVA, *classes, str(port), "--alsoStartLoopbackWorker=true"], tmp_path / "service.log"
    )
    try:
        service.await_port(port)
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            rows = pipeline | beam.Create([batch_message(sent)]) | FrequenciesPerEpoch(agreed)
            rows | managed.Write("iceberg", config=table, expansion_service=f"localhost:{port}")
    finally:
        service.kill()
    folder = warehouse / "telemetry" / "frequencies"
    newest = max(folder.glob("metadata/*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    (snapshot,) = json.loads(newest.read_text("utf-8"))["snapshots"]
    wanted = ldpbeam.estimate(agreed, sent)
    assert int(snapshot["summary"]["total-records"]) == wanted.num_rows
    written = [row for path in folder.glob("data/**/*.parquet") for row in pq.read_table(path).to_pylist()]
    same = ("label", "n", "estimate", "std_error", "ci_low", "ci_high")
    assert sorted(tuple(row[name] for name in same) for row in written) == sorted(
        tuple(row[name] for name in same) for row in wanted.to_pylist()
    )
