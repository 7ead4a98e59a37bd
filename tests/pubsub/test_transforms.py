"""The public transform between two topics: read, count, publish rows, and dead letters on a third topic."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.error_handling import ErrorHandler

import ldpbeam
from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine.sources.subscriber import Subscriber
from ldpbeam.tables import CUMULATIVE
from ldpbeam.transforms import FrequenciesPerEpoch, RejectedRow, as_dict
from tests.pipelines.running import collection, fleet
from tests.pubsub.conftest import Channel, pull_all
from tests.waiting import PATIENCE

pytestmark = [
    pytest.mark.pubsub,
    pytest.mark.timeout(PATIENCE),
    # Beam's local runner leaves the channels of its Pub/Sub clients to the end of the interpreter.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def in_bytes(row: Any) -> bytes:
    return json.dumps(as_dict(row), default=datetime.isoformat).encode()


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says in JSON, but for its revision."""
    said = json.loads(json.dumps(row, default=datetime.isoformat))
    return {name: value for name, value in said.items() if name not in {"revision", "pane"}}


def rows_of(agreed: Collection, sent: list[ReportColumns]) -> list[dict[str, Any]]:
    return [plain(row | dict.fromkeys(CUMULATIVE)) for row in ldpbeam.estimate(agreed, sent).to_pylist()]


def test_rows_and_dead_letters_reach_their_topics(
    make_channel: Callable[..., Channel], subscribe: Callable[..., Subscriber]
) -> None:
    """A result early, before the epoch has ended, and one with what came afterwards; copies count once."""
    source, rows, dead = make_channel(ack_deadline_seconds=600), make_channel(), make_channel()
    # As long as the test may take: when messages arrive plays no part in what is counted.
    epochs = Epochs(86_400, int(time.time()) - 3_600, 10)
    agreed = collection("grr", 5, "topics", epochs=epochs, min_reports=1)
    first, second = fleet(agreed, 60, 1), fleet(agreed, 90, 1)
    options = PipelineOptions(["--streaming", "--project=ldp-test"])
    pipeline = beam.Pipeline(runner="BundleBasedDirectRunner", options=options)
    messages = pipeline | beam.io.ReadFromPubSub(subscription=source.subscription, with_attributes=True)
    letters = "Letter" >> beam.Map(in_bytes).with_input_types(RejectedRow) | beam.io.WriteToPubSub(dead.topic)
    with ErrorHandler(letters) as handler:
        counted = messages | FrequenciesPerEpoch(agreed, early_every="2s").with_error_handler(handler)
        _ = counted | beam.Map(in_bytes) | "Topic" >> beam.io.WriteToPubSub(rows.topic)
    running = pipeline.run()
    try:
        source.publish(*map(batch_message, first), b"junk", batch_message(first[0]))
        wanted = rows_of(agreed, first)
        reader = subscribe(rows.subscription)
        found: dict[int, dict[str, Any]] = {}

        def until(wanted: list[dict[str, Any]]) -> None:
            end = time.monotonic() + PATIENCE
            while [plain(found[value]) for value in sorted(found)] != wanted:
                assert time.monotonic() < end, found
                pulled = reader.pull(1000, 1 << 24, 1.0)
                reader.acknowledge(pulled)
                for row in (json.loads(message.data) for message in pulled):
                    if row["revision"] >= found.get(row["value"], row)["revision"]:
                        found[row["value"]] = row

        until(wanted)
        assert {row["pane"] for row in found.values()} == {"early"}
        (letter,) = pull_all(subscribe(dead.subscription), 1)
        assert json.loads(letter.data)["reason"] == "malformed"
        source.publish(*map(batch_message, second))
        until(rows_of(agreed, [*first, *second]))
    finally:
        running.cancel()
