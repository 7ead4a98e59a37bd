"""Sinks for messages and rows: what arrives is the Parquet table, whatever fails on the way."""

from __future__ import annotations

import json
import pickle
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import apache_beam as beam
import grpc
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

import ldpbeam.transforms.sinks.bigquery
import ldpbeam.transforms.sinks.confirmed_sink
import ldpbeam.transforms.sinks.topic
from ldpbeam.accounting import Account
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.collection.file import parse_collection
from ldpbeam.collection.values import Index
from ldpbeam.errors import LdpError, UsageError
from ldpbeam.histogram import TOO_MANY_ERRORS, EpochHistogram, estimate_epoch, make_consistent
from ldpbeam.pipelines.deploy.bigquery import FOLDER, generated
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.simulators.population.joint import joint_population
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.support import Support
from ldpbeam.tables import epoch_table, estimates_schema, fixed_columns
from ldpbeam.transforms.sinks import Outputs
from ldpbeam.transforms.sinks.bigquery import (
    WriteEstimatesToBigQuery,
    bigquery_client,
    bigquery_schema,
)
from ldpbeam.transforms.sinks.estimates import WriteEpochs
from ldpbeam.transforms.sinks.publish import write_histograms
from ldpbeam.transforms.sinks.topic import PublishEstimates, estimate_messages
from tests.pipelines.running import collection
from tests.transforms.sinks.fake_bigquery import FakeBigQuery, fake_bigquery
from tests.transforms.sinks.fake_topic import FakeTopic, fake_topic
from tests.waiting import slowness

TABLE = "ldp-test.telemetry.estimates"
TOPIC = "projects/ldp-test/topics/estimates"
ID = ("collection", "digest", "epoch", "revision", "attribute", "value")

PEOPLE = """\
name: people
attributes:
  - {name: age, domain: {size: 8}}
  - {name: region, domain: {labels: [north, süd, "e<b>ast", "\\U0001F600"]}}
  - {name: hours, domain: {range: {max: 24, buckets: 5}}}
allocation: sample
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
min_reports: 100
epoch: {length: 1h, origin: 2026-01-01T00:00:00Z}
"""

Row = dict[str, Any]


@cache
def people() -> tuple[Collection, EpochHistogram]:
    agreed = parse_collection(PEOPLE)
    crowd = joint_population(
        "zipf:1.1", attributes=agreed.histograms, devices=300, epochs=1, random_words=RandomWords(2)
    )
    (values,) = crowd.values()
    support = Support.zero(agreed.protocol.counter.counts_length)
    reports = Fleet(agreed, 300, 1).report(Index(values), 5)
    agreed.protocol.counter.add(reports.payloads, support.counts)
    support.reports += len(reports)
    found = make_consistent(agreed, estimate_epoch(agreed, 5, support))
    assert {one.status for one in found.attributes} == {"ok", "insufficient_reports"}
    return agreed, replace(found, account=Account(read=300, counted=300))


def plain(agreed: Collection, epoch: int = 0, revision: int = 0, reports: int = 50) -> EpochHistogram:
    draw = np.random.default_rng([epoch, revision])
    counts = draw.integers(0, reports, agreed.protocol.counter.counts_length)
    found = make_consistent(agreed, estimate_epoch(agreed, epoch, Support(counts, reports)))
    return replace(found, revision=revision, account=Account(read=reports, counted=reports))


def withheld(agreed: Collection, revision: int = 0) -> EpochHistogram:
    return EpochHistogram(
        agreed.digest, 7, 900, (), revision, "late", Account(read=1), closed=False, withheld=TOO_MANY_ERRORS
    )


def books_only(agreed: Collection) -> EpochHistogram:
    return EpochHistogram(agreed.digest, 7, 900, (), account=Account(read=1))


def parquet(
    folder: Path, agreed: Collection, *histograms: EpochHistogram, job: str = ""
) -> dict[tuple[int, int], list[Row]]:
    sink = WriteEpochs(agreed, str(folder), job)
    sink.setup()
    for histogram in histograms:
        list(sink.process(histogram))
    found = {}
    for path in sorted((folder / "estimates").iterdir()):
        rows = pq.read_table(path).to_pylist()
        found[rows[0]["epoch"], rows[0]["revision"]] = rows
    return found


def deliver(sink: Any, *histograms: EpochHistogram) -> list[EpochHistogram]:
    sink.setup()
    try:
        return list(bundle(sink, *histograms))
    finally:
        sink.teardown()


def bundle(sink: Any, *histograms: EpochHistogram) -> Iterator[EpochHistogram]:
    sink.start_bundle()
    outcome: list[WindowedValue] = []
    for i, histogram in enumerate(histograms):
        outcome += sink.process(histogram, Timestamp(i), GlobalWindow())
    outcome += sink.finish_bundle()
    for i, held in enumerate(outcome):
        assert (held.timestamp, held.windows) == (Timestamp(i), (GlobalWindow(),))
        yield held.value


# --- messages


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTopic]:
    with fake_topic(TOPIC) as fake:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", fake.host)
        yield fake


def message_rows(messages: list[bytes]) -> list[Row]:
    rows = []
    for message in sorted(map(json.loads, messages), key=lambda m: m["part"]):
        columns = message.pop("columns")
        for i in range(len(columns["value"])):
            rows.append(message | {name: column[i] for name, column in columns.items()})
    return rows


def typed(rows: list[Row], columns: list[str]) -> list[Row]:
    found = [{name: row[name] for name in columns} for row in rows]
    times = ("epoch_start", "epoch_end")
    return [row | {name: datetime.fromisoformat(row[name]) for name in times} for row in found]


def test_a_message_holds_the_rows_of_the_file_and_says_what_it_is_about(
    topic: FakeTopic, tmp_path: Path
) -> None:
    agreed, histogram = people()
    late = replace(histogram, pane="late", revision=2, closed=False)
    assert deliver(PublishEstimates(agreed, TOPIC), late) == [late]
    (rows,) = parquet(tmp_path, agreed, late).values()
    (message,) = topic.messages
    assert typed(message_rows([message.data]), list(rows[0])) == rows
    assert {row["estimate"] is None for row in rows} == {True, False}
    assert dict(message.attributes) == {
        "collection": "people",
        "digest": agreed.digest_hex,
        "epoch": "5",
        "revision": "2",
        "pane": "late",
        "closed": "false",
        "part": "1",
        "parts": "1",
        "id": f"{agreed.digest_hex}/5/2/1",
    }
    assert message.ordering_key == f"{agreed.digest_hex}/5"
    body = json.loads(message.data)
    assert (body["schema"], body["closed"], body["withheld"]) == ("ldpbeam.estimates/1", False, "")


def test_only_what_is_published_or_withheld_is_told(topic: FakeTopic) -> None:
    agreed = collection("grr", name="a")
    told = [books_only(agreed), withheld(agreed, 1)]
    assert deliver(PublishEstimates(agreed, TOPIC), *told) == told
    (message,) = topic.messages
    assert message.attributes["withheld"] == TOO_MANY_ERRORS
    body = json.loads(message.data)
    assert (body["withheld"], body["reports"], body["revision"]) == (TOO_MANY_ERRORS, 900, 1)
    names = {field.name for field in estimates_schema(agreed)}
    assert set(body["columns"]) <= names <= set(body) | set(body["columns"])
    assert all(column == [] for column in body["columns"].values())


@pytest.mark.parametrize("limit", [2000, 100_000])
def test_parts_hold_every_row_once_and_none_is_too_large(limit: int) -> None:
    agreed = collection("grr", size=97, name="a")
    histogram, fixed = plain(agreed, 4), fixed_columns(agreed)
    histogram = replace(histogram, revision=3)
    messages = estimate_messages(agreed, histogram, fixed, limit)
    assert max(len(message.data) for message in messages) <= limit
    assert len({message.attributes["id"] for message in messages}) == len(messages)
    assert {message.attributes["parts"] for message in messages} == {str(len(messages))}
    assert (len(messages) == 1) == (limit == 100_000)
    whole = epoch_table(agreed, histogram, fixed).to_pylist()
    assert typed(message_rows([m.data for m in messages]), list(whole[0])) == whole
    assert messages == estimate_messages(agreed, histogram, fixed, limit)


def test_a_row_that_fits_into_no_message_is_said() -> None:
    agreed = collection("grr", name="a")
    with pytest.raises(LdpError, match="a single row") as refused:
        estimate_messages(agreed, plain(agreed), fixed_columns(agreed), 100)
    assert refused.value.code == "E-RUN-SINK"


@pytest.mark.parametrize("bound", ["OUTSTANDING", "OUTSTANDING_BYTES"])
def test_what_is_on_its_way_is_bounded(topic: FakeTopic, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    most = {"OUTSTANDING": 3, "OUTSTANDING_BYTES": 5000}[bound]
    monkeypatch.setattr(ldpbeam.transforms.sinks.confirmed_sink, bound, most)
    agreed = collection("grr", name="a")
    sink = PublishEstimates(agreed, TOPIC)
    histograms = [plain(agreed, epoch) for epoch in range(20)]
    sink.setup()
    sink.start_bundle()
    early = [held for h in histograms for held in sink.process(h, Timestamp(0), GlobalWindow())]
    assert len(early) >= 16
    assert [held.value for held in [*early, *sink.finish_bundle()]] == histograms
    sink.teardown()
    assert sorted(int(m.attributes["epoch"]) for m in topic.messages) == list(range(20))


def test_a_failure_that_passes_is_tried_again(topic: FakeTopic) -> None:
    """Also one after which only the answer was lost: then the message is there twice, with one id."""
    agreed = collection("grr", name="a")
    topic.before += [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL]
    topic.after.append(grpc.StatusCode.UNAVAILABLE)
    deliver(PublishEstimates(agreed, TOPIC), plain(agreed))
    assert topic.calls == 4
    first, second = topic.messages
    assert first == second


def test_what_an_aborted_bundle_has_sent_is_no_part_of_the_next_one(topic: FakeTopic) -> None:
    """Another step of the bundle failed: nothing of it is passed on, and its client is not used again."""
    agreed = collection("grr", name="a")
    sink = PublishEstimates(agreed, TOPIC)
    sink.setup()
    sink.start_bundle()
    assert list(sink.process(plain(agreed, 0), Timestamp(0), GlobalWindow())) == []
    client = sink._publisher
    again = list(bundle(sink, plain(agreed, 1)))
    assert [histogram.epoch for histogram in again] == [1]
    assert sink._publisher is not client
    sink.teardown()
    assert {message.attributes["epoch"] for message in topic.messages} == {"0", "1"}


def test_a_failure_that_stays_ends_the_bundle_and_not_the_sink(topic: FakeTopic) -> None:
    agreed = collection("grr", name="a")
    sink = PublishEstimates(agreed, TOPIC)
    sink.setup()
    topic.before.append(grpc.StatusCode.NOT_FOUND)
    with pytest.raises(LdpError, match="could not be published") as refused:
        list(bundle(sink, plain(agreed, 0), plain(agreed, 0, 1)))
    assert refused.value.code == "E-RUN-SINK"
    topic.before.clear()
    topic.messages.clear()
    assert len(list(bundle(sink, plain(agreed, 0), plain(agreed, 0, 1)))) == 2
    assert [m.attributes["revision"] for m in topic.messages] == ["0", "1"]
    sink.teardown()


def test_a_broker_that_does_not_answer_ends_the_bundle_in_time(
    topic: FakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ldpbeam.transforms.sinks.topic, "_SECONDS", 0.2)
    monkeypatch.setattr(ldpbeam.transforms.sinks.topic, "_PAUSE", 0.1)
    topic.down = grpc.StatusCode.UNAVAILABLE
    agreed = collection("grr", name="a")
    started = time.monotonic()
    with pytest.raises(LdpError, match="ServiceUnavailable"):
        deliver(PublishEstimates(agreed, TOPIC), plain(agreed))
    assert time.monotonic() - started < 10 * slowness()
    calls = topic.calls
    time.sleep(0.3)
    assert topic.calls == calls  # nobody goes on trying


# --- rows


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBigQuery]:
    schema = json.loads((FOLDER / "estimates.schema.json").read_text("utf-8"))
    with fake_bigquery(TABLE, schema) as fake:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", fake.host)
        monkeypatch.setattr(ldpbeam.transforms.sinks.bigquery, "_PAUSE", 0.02)
        yield fake


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ID)


@pytest.mark.parametrize("name", [TABLE, TABLE.replace(".", ":", 1)])
def test_rows_are_those_of_the_file_whatever_fails_on_the_way(
    name: str, table: FakeBigQuery, tmp_path: Path
) -> None:
    """Refused before anything was inserted, inserted with the answer lost, some rows refused for a while."""
    agreed, histogram = people()
    table.before.append((503, "backendError"))
    table.spoil.append({0: "backendError", 3: "timeout"})
    table.after.append((503, "backendError"))
    assert deliver(WriteEstimatesToBigQuery(agreed, name), histogram) == [histogram]
    assert [request.status for request in table.requests] == [503, 200, 503, 200]
    (rows,) = parquet(tmp_path, agreed, histogram).values()
    assert typed(table.rows, list(rows[0])) == rows
    assert all(list(row) == list(rows[0]) for row in table.rows)


def test_several_epochs_share_a_request_and_all_limits_are_kept(
    table: FakeBigQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreed = collection("grr", name="a")
    histograms = [plain(agreed, epoch) for epoch in range(6)]
    wanted = [r for rows in parquet(tmp_path, agreed, *histograms).values() for r in rows]
    deliver(WriteEstimatesToBigQuery(agreed, TABLE), *histograms)
    assert len(table.requests) == 1
    monkeypatch.setattr(ldpbeam.transforms.sinks.bigquery, "_ROWS", 25)
    deliver(WriteEstimatesToBigQuery(agreed, TABLE), *histograms)
    assert [len(request.rows) for request in table.requests[1:]] == [25, 25, 16]
    monkeypatch.setattr(ldpbeam.transforms.sinks.bigquery, "_BYTES", 5000)
    assert deliver(WriteEstimatesToBigQuery(agreed, TABLE), *histograms) == histograms
    assert max(request.size for request in table.requests[4:]) <= 5000 + len('{"rows": []}')
    assert typed(table.rows, list(wanted[0])) == wanted  # inserted three times, there once


def test_refused_rows_are_named_with_reasons_and_without_their_content(table: FakeBigQuery) -> None:
    agreed, histogram = people()
    table.spoil.append(dict.fromkeys((1, 9, 10, 11, 12), "invalid") | {0: "backendError"})
    with pytest.raises(LdpError, match="refused rows") as refused:
        deliver(WriteEstimatesToBigQuery(agreed, TABLE), histogram)
    assert refused.value.code == "E-RUN-SINK"
    text = str(refused.value)
    assert "epoch 5 revision 0 attribute 'age' value 1: invalid" in text
    assert "attribute 'region' value 1: invalid" in text
    assert "and 3 more rows" in text
    assert "ldp-test:telemetry.estimates" in text
    assert "Cannot convert" not in text
    assert "süd" not in text
    assert len(text) < 600
    assert table.rows == []


def test_a_refused_request_is_not_repeated(table: FakeBigQuery) -> None:
    agreed = collection("grr", name="a")
    table.before.append((403, "accessDenied"))
    with pytest.raises(LdpError, match="Forbidden 403 accessDenied") as refused:
        deliver(WriteEstimatesToBigQuery(agreed, TABLE), plain(agreed))
    assert refused.value.code == "E-RUN-SINK"
    assert len(table.requests) == 1


def test_a_service_that_stays_away_ends_the_bundle_in_time(
    table: FakeBigQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ldpbeam.transforms.sinks.bigquery, "_SECONDS", 0.2)
    agreed = collection("grr", name="a")
    table.before.extend([(503, "backendError")] * 100)
    with pytest.raises(LdpError, match=r"for 0 s \(ServiceUnavailable 503 backendError\)"):
        deliver(WriteEstimatesToBigQuery(agreed, TABLE), plain(agreed))
    table.before.clear()
    table.spoil.extend([{2: "backendError"}] * 100)
    with pytest.raises(LdpError, match="attribute '' value 2: backendError"):
        deliver(WriteEstimatesToBigQuery(agreed, TABLE), plain(agreed))


def test_missing_credentials_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BIGQUERY_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(UsageError, match="credentials"):
        bigquery_client("ldp-test")


@pytest.mark.parametrize(
    "name",
    ["", "my-project:set", "my-project:set.table$1", "p:d.t\n"],
)
def test_what_is_no_table_is_refused_at_once(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        WriteEstimatesToBigQuery(collection("grr", name="a"), name)
    assert refused.value.code == "E-USAGE-OPTION"


# --- the schema and the view


def test_generated_files_are_what_the_code_gives() -> None:
    for name, content in generated().items():
        assert (FOLDER / name).read_text("utf-8") == content, (
            "run: python -m ldpbeam.pipelines.deploy.bigquery"
        )


def test_the_schema_is_that_of_the_parquet_files() -> None:
    described = {c["name"]: c for c in json.loads((FOLDER / "estimates.schema.json").read_text("utf-8"))}
    runs = parse_collection(
        "{name: runs, domain: {size: 9, ordered: true}, protocol: olh, hash_family: interval, epsilon: 1, "
        "epoch: {length: 1h}}"
    )
    assert bigquery_schema(estimates_schema(runs)) == list(described.values())
    for agreed in (people()[0], collection("grr", name="a"), runs):
        schema = estimates_schema(agreed)
        assert bigquery_schema(schema) == list(described.values())[: len(schema)]
        for column in schema:
            found = described[column.name]
            kind = re.sub(r"\d.*|\[.*", "", str(column.type))
            names = {"string": "STRING", "int": "INTEGER", "double": "FLOAT", "timestamp": "TIMESTAMP"}
            assert found["type"] == names[kind]
            assert (found["mode"] == "NULLABLE") == column.nullable
            assert 0 < len(found["description"]) <= 1024


def latest(rows: list[Row]) -> list[Row]:
    """What the view shows of a table with these rows; sqlite reads the same SQL."""
    view = (FOLDER / "latest.sql").read_text("utf-8").replace("CREATE OR REPLACE", "CREATE")
    names = [one["name"] for one in json.loads((FOLDER / "estimates.schema.json").read_text("utf-8"))]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE `DATASET.estimates` ({', '.join(names)})")
        places = ", ".join("?" * len(names))
        database.executemany(
            f"INSERT INTO `DATASET.estimates` VALUES ({places})",
            [[row.get(name) for name in names] for row in rows],
        )
        database.executescript(view)
        cursor = database.execute("SELECT * FROM `DATASET.estimates_latest`")
        assert [column[0] for column in cursor.description] == names
        kept = {name for row in rows for name in row}
        found = [
            {name: cell for name, cell in zip(names, row, strict=True) if name in kept} for row in cursor
        ]
    database.close()
    return sorted(found, key=key)


def test_the_view_shows_the_newest_revision_once(table: FakeBigQuery, tmp_path: Path) -> None:
    agreed, other = collection("grr", name="a"), collection("sue", name="b")
    mine = [plain(agreed, 3, 0), plain(agreed, 3, 1), plain(agreed, 4, 0), plain(agreed, 3, 2)]
    for _ in range(3):
        deliver(WriteEstimatesToBigQuery(agreed, TABLE), *mine)
        deliver(WriteEstimatesToBigQuery(other, TABLE), plain(other, 3))
        table.forget()
    files = parquet(tmp_path / "a", agreed, *mine) | {
        (-1, 0): parquet(tmp_path / "b", other, plain(other, 3))[3, 0]
    }
    assert len(table.rows) == 3 * 11 * 5
    wanted = [*files[3, 2], *files[4, 0], *files[-1, 0]]
    assert typed(latest(table.rows), list(wanted[0])) == sorted(wanted, key=key)


def test_the_view_does_not_mix_revisions(table: FakeBigQuery) -> None:
    """While a revision is on its way the one before stays; the first shows as far as it has come."""
    agreed = collection("grr", name="a")
    deliver(WriteEstimatesToBigQuery(agreed, TABLE), plain(agreed, 3, 0), plain(agreed, 3, 1))
    old, new = table.rows[:11], table.rows[11:]
    assert latest(old[:4]) == old[:4]
    assert latest([*old, *new[:10]]) == old
    assert latest([*new[:10], *old, *new[:10]]) == old
    assert latest([*old, *new]) == new


def test_the_view_prefers_more_reports_where_a_key_was_used_twice() -> None:
    agreed = collection("grr", name="a")
    fixed = fixed_columns(agreed)
    few, many = (epoch_table(agreed, plain(agreed, 3, 0, n), fixed).to_pylist() for n in (50, 80))
    times = ("epoch_start", "epoch_end")
    rows = [row | {name: row[name].isoformat() for name in times} for row in [*many, *few]]
    assert latest(rows) == rows[:11]


# --- in a pipeline


def _loaded(pickled: bytes) -> tuple[str, EpochHistogram]:
    histogram: EpochHistogram = pickle.loads(pickled)
    return digest_hex(histogram.digest), histogram


def test_both_sinks_stand_before_the_files_in_a_pipeline(
    topic: FakeTopic, table: FakeBigQuery, tmp_path: Path
) -> None:
    agreed = collection("grr", name="a")
    histograms = [plain(agreed, epoch, revision) for epoch in range(4) for revision in range(2)]
    outputs = Outputs(str(tmp_path), "job", {"publish_topic": TOPIC, "bigquery_table": TABLE})
    options = PipelineOptions(["--runner=FnApiRunner", "--direct_runner_bundle_repeat=2"])
    with beam.Pipeline(options=options) as pipeline:
        final = (
            pipeline
            | beam.Create([pickle.dumps(h) for h in histograms], reshuffle=False)
            | "Load" >> beam.Map(_loaded)
        )
        _ = final | write_histograms([agreed], outputs)
    files = parquet(tmp_path, agreed)
    # Two results of an epoch are two revisions; each time the bundle comes again they are two more.
    assert {epoch for epoch, _ in files} == set(range(4))
    assert len(files) >= 8
    wanted = sorted((row for rows in files.values() for row in rows), key=key)
    assert typed(sorted(table.rows, key=key), list(wanted[0])) == wanted
    by_id = {m.attributes["id"]: m.data for m in topic.messages}
    assert len(by_id) == len(files)
    assert len({(m.attributes["id"], m.data) for m in topic.messages}) == len(by_id)
    rows = [row for data in by_id.values() for row in message_rows([data])]
    assert typed(sorted(rows, key=key), list(wanted[0])) == wanted


@pytest.mark.thorough
def test_a_sink_that_refuses_keeps_the_books_from_being_written(
    topic: FakeTopic, table: FakeBigQuery, tmp_path: Path
) -> None:
    """What was told before is told again under the same names when the run is repeated."""
    agreed = collection("grr", name="a")
    outputs = Outputs(str(tmp_path), "job", {"publish_topic": TOPIC, "bigquery_table": TABLE})

    def run() -> None:
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            final = pipeline | beam.Create([pickle.dumps(plain(agreed))]) | beam.Map(_loaded)
            _ = final | write_histograms([agreed], outputs)

    table.before.append((404, "notFound"))
    with pytest.raises(Exception, match="E-RUN-SINK"):
        run()
    assert len(topic.messages) == 1
    assert [p.suffix for p in tmp_path.rglob("*.*")] == [".revision"]
    run()
    assert len({m.attributes["id"] for m in topic.messages}) == 1
    assert len(topic.messages) == 2
    assert len(table.rows) == 11
    assert sorted(p.name for p in tmp_path.iterdir()) == ["accounting", "estimates", "latest"]
