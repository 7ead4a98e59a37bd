"""Results of the local engine reach the sinks that are asked for, in the right order, through failures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest

from ldpbeam.accounting import Account, Publication
from ldpbeam.collection.collection import digest_hex
from ldpbeam.engine.publication import DueResult
from ldpbeam.engine.results import publish_due
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.engine.storage.segment import judge
from ldpbeam.engine.storage.stream_state import StreamState
from ldpbeam.errors import LdpError
from ldpbeam.job.config import RunConfig
from ldpbeam.pipelines.deploy.bigquery import FOLDER
from ldpbeam.schedule import Schedule
from ldpbeam.transforms.sinks.estimates import EpochFiles
from tests.pipelines.running import collection, fleet
from tests.reference.stream import batch_message
from tests.transforms.sinks.fake_bigquery import FakeBigQuery, fake_bigquery
from tests.transforms.sinks.fake_topic import FakeTopic, fake_topic

ONE, TWO = collection("grr", 4, "one"), collection("loloha", 5, "two")
TOPIC = "projects/ldp-test/topics/estimates"
TABLE = "ldp-test.telemetry.estimates"
EPOCHS = range(2)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTopic]:
    with fake_topic(TOPIC) as fake:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", fake.host)
        yield fake


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBigQuery]:
    with fake_bigquery(TABLE, json.loads((FOLDER / "estimates.schema.json").read_text("utf-8"))) as fake:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", fake.host)
        yield fake


def landed(output: Path, **sinks: str) -> tuple[RunConfig, StreamState, list[DueResult]]:
    """Ten reports of every epoch of two collections in one segment, and the first result of each."""
    config = RunConfig.parsed((ONE, TWO), output=str(output), subscription="s", **sinks)
    messages = []
    for agreed in config.collections:
        payloads = fleet(agreed, 10, 1)[0].payloads.tobytes()
        for epoch in EPOCHS:
            ids = range(10 * epoch, 10 * epoch + 10)
            messages.append(batch_message(agreed.digest, epoch, ids, payloads))
    (output / "landing").mkdir()
    state = StreamState(
        Landing(str(output)), str(output), {c.digest_hex: Schedule(c) for c in config.collections}
    )
    land(state, config, messages)
    due = [
        DueResult((agreed.digest_hex, epoch), True, Account(read=10), Publication(position={"segment": 1}))
        for epoch in EPOCHS
        for agreed in config.collections
    ]
    return config, state, due


def land(state: StreamState, config: RunConfig, messages: list[bytes]) -> None:
    collections = {c.digest: c for c in config.collections}
    state.land(judge(messages, [0] * len(messages), collections, watermark=0))


def rows(output: Path) -> list[tuple[str, int, int, int]]:
    """(digest, epoch, value, support) of all tables."""
    return sorted(
        (row["digest"], row["epoch"], row["value"], row["support"])
        for path in (output / "estimates").iterdir()
        for row in pq.read_table(path).to_pylist()
    )


def test_optional_sinks_have_every_result_before_the_accounting_names_it(
    tmp_path: Path, topic: FakeTopic, table: FakeBigQuery
) -> None:
    config, state, due = landed(tmp_path, publish_topic=TOPIC, bigquery_table=TABLE)
    write = EpochFiles.write_tables

    def checked(files: EpochFiles, result: Any, known: Any) -> Any:
        sent = {(m.attributes["digest"], int(m.attributes["epoch"])) for m in topic.messages}
        inserted = {(row["digest"], row["epoch"]) for row in table.rows}
        assert (digest_hex(result.digest), result.epoch) in sent & inserted
        return write(files, result, known)

    with mock.patch.object(EpochFiles, "write_tables", checked):
        publish_due(config, state, due)
    assert len(topic.messages) == len(due)
    assert sorted((r["digest"], r["epoch"], r["value"], r["support"]) for r in table.rows) == rows(tmp_path)
    assert len(rows(tmp_path)) == len(EPOCHS) * 9


def test_what_a_sink_refuses_is_not_named_and_comes_again_under_its_number(
    tmp_path: Path, table: FakeBigQuery
) -> None:
    config, state, due = landed(tmp_path, bigquery_table=TABLE)
    table.before.append((403, "accessDenied"))
    with pytest.raises(LdpError, match="E-RUN-SINK"):
        publish_due(config, state, due)
    assert not list(tmp_path.glob("accounting/*.json"))
    assert not list(tmp_path.glob("estimates/*"))
    publish_due(config, state, due)
    assert {row["revision"] for row in table.rows} == {0}
    assert len(list(tmp_path.glob("estimates/*-r000.parquet"))) == len(due)


def test_a_result_with_other_content_gets_the_next_number_whatever_was_asked_for(tmp_path: Path) -> None:
    config, state, (first, *_) = landed(tmp_path)
    for pane in ("on_time", "on_time", "late"):
        publish_due(config, state, [replace(first, publication=Publication(0, pane))])
    found = json.loads(next(tmp_path.glob("accounting/one-*.json")).read_text())
    assert [(r["revision"], r["pane"]) for r in found["revisions"]] == [(0, "on_time"), (1, "late")]


@pytest.mark.parametrize(("deduplicate", "counted"), [(True, 10), (False, 20)])
def test_repeats_across_segments_count_only_where_nobody_asks(
    tmp_path: Path, deduplicate: bool, counted: int
) -> None:
    config, state, (first, *_) = landed(tmp_path)
    payloads = fleet(ONE, 10, 1)[0].payloads.tobytes()
    land(state, config, [batch_message(ONE.digest, 0, range(10), payloads)])
    again = replace(first, account=Account(read=20))
    publish_due(config.changed(deduplicate=deduplicate), state, [again])
    found = json.loads(next(tmp_path.glob("accounting/one-*.json")).read_text())["accounting"]
    assert (found["counted"], found["duplicate"]) == (counted, 20 - counted)


@pytest.mark.parametrize(("limit", "withheld"), [(0.6, "too_many_errors"), (0.7, "")])
def test_the_error_fraction_of_the_run_is_the_limit(tmp_path: Path, limit: float, withheld: str) -> None:
    config, state, (first, *_) = landed(tmp_path)
    rejected = replace(first, account=Account(read=30, rejected=Counter(malformed=20)))
    publish_due(config.changed(max_error_fraction=limit), state, [rejected])
    found = json.loads(next(tmp_path.glob("accounting/one-*.json")).read_text())
    assert found["revisions"][-1]["withheld"] == withheld
