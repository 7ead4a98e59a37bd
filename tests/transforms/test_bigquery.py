"""Rows in Beam's own sink for BigQuery, which speaks with as much of the service as streaming inserts see."""

from __future__ import annotations

import json
from datetime import datetime

import apache_beam as beam
import pytest
from apache_beam.io.gcp.bigquery import WriteToBigQuery
from google.auth.credentials import AnonymousCredentials

from ldpbeam.transforms import FrequenciesPerEpoch, as_dict
from tests.conftest import REPOSITORY
from tests.transforms.public import BOTH, MESSAGES, expected, in_order
from tests.transforms.sinks.fake_bigquery import fake_bigquery

SCHEMA = json.loads((REPOSITORY / "pipelines/deploy/bigquery/estimates.schema.json").read_text("utf-8"))


@pytest.mark.thorough
def test_bigquery_takes_the_dictionaries_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_bigquery("my-project.counts.frequencies", SCHEMA) as fake:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", fake.host)
        # Neither of Beam's two clients asks Google who it is.
        monkeypatch.setattr("google.auth.default", lambda *_, **__: (AnonymousCredentials(), "my-project"))
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            rows = pipeline | beam.Create(MESSAGES) | FrequenciesPerEpoch(BOTH)
            _ = (
                rows
                | beam.Map(as_dict)
                | WriteToBigQuery(
                    "my-project:counts.frequencies",
                    schema={"fields": SCHEMA},
                    method=WriteToBigQuery.Method.STREAMING_INSERTS,
                    create_disposition=beam.io.BigQueryDisposition.CREATE_NEVER,
                )
            )
    wanted = json.loads(json.dumps(expected(), default=datetime.isoformat))
    assert in_order(fake.rows) == wanted
