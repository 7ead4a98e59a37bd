"""After a replay the counts are what they would be had nothing been rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.cli.replay import replay_rejects as replay
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.errors import LdpError, UsageError
from ldpbeam.job.config import RunConfig
from ldpbeam.wire import report_pb2
from tests.ldpbeam.engine.broker import Broker, Clock, Message, free_landing
from tests.pipelines.running import (
    check_books,
    collection,
    execute,
    expected_support,
    fleet,
    with_duplicates,
    write,
)

HOUR = Epochs(3600, 0, 100)
ONE = collection("grr", name="one", epochs=HOUR, allowed_lateness=1800)
TWO = collection("olh", name="two", epochs=HOUR, allowed_lateness=1800)


def newest(output: Path) -> dict[tuple[str, int], tuple[int, list[int], int]]:
    """n, support and revision of the newest result by digest and epoch, through the books."""
    found = {}
    for path in sorted((output / "accounting").glob("*-epoch-*.json")):
        record = json.loads(path.read_text())
        assert record["accounting"]["pending"] == 0
        assert [r["revision"] for r in record["revisions"]] == list(range(len(record["revisions"])))
        if record["revisions"]:
            last = record["revisions"][-1]
            table = pq.read_table(output / last["file"])
            assert set(table["revision"].to_pylist()) == {last["revision"]}
            found[record["digest"], record["epoch"]] = (
                record["accounting"]["counted"],
                table["support"].to_pylist(),
                last["revision"],
            )
    return found


def without_revision(output: Path) -> dict[tuple[str, int], tuple[int, list[int]]]:
    return {key: (n, support) for key, (n, support, _) in newest(output).items()}


# --- files


def test_a_mended_file_gives_a_further_revision(tmp_path: Path) -> None:
    write(tmp_path / "in", ONE, fleet(ONE))
    victim = sorted((tmp_path / "in").iterdir())[1]
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) * 2 // 3])
    first = execute(ONE, tmp_path / "in", tmp_path / "out", max_error_fraction=1.0)
    assert "truncated" in first.total["rejected"]
    victim.write_bytes(whole)
    done = replay(tmp_path / "out" / "rejects", (ONE,))
    assert done.revised == (("one", 1, 1),)
    assert without_revision(tmp_path / "out") == expected_support([ONE], sorted((tmp_path / "in").iterdir()))
    record = json.loads(
        (tmp_path / "out" / "accounting" / f"one-{ONE.digest_hex}-epoch-000001.json").read_text()
    )
    assert [r["pane"] for r in record["revisions"]] == ["on_time", "replay"]
    assert list((tmp_path / "out" / "rejects").iterdir()) == []


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rejects").mkdir()
    with pytest.raises(UsageError, match="E-USAGE-RESULTS"):
        replay(tmp_path / "rejects", (ONE,))


def with_latest(output: Path) -> None:
    """latest/ has the newest revision of each epoch, and no other file."""
    found = {}
    for path in (output / "latest").iterdir():
        table = pq.read_table(path)
        digest, epoch = (table[name][0].as_py() for name in ("digest", "epoch"))
        found[digest, epoch] = (table["support"].to_pylist(), table["revision"][0].as_py())
    assert found == {key: (support, revision) for key, (_, support, revision) in newest(output).items()}


# --- streams


def message(agreed: Collection, columns: ReportColumns) -> bytes:
    return report_pb2.ReportBatch(
        digest=agreed.digest,
        epoch=columns.epoch,
        count=len(columns.report_ids),
        report_ids=columns.report_ids.tolist(),
        payloads=columns.payloads.tobytes(),
    ).SerializeToString()


def singles(agreed: Collection, columns: ReportColumns) -> list[bytes]:
    return [
        report_pb2.Report(
            digest=agreed.digest, epoch=columns.epoch, report_id=int(name), payload=payload.tobytes()
        ).SerializeToString()
        for name, payload in zip(columns.report_ids, columns.payloads, strict=True)
    ]


def stream(
    output: Path, clock: Clock, broker: Broker, *collections: Collection, **more: Any
) -> LocalStream[Message]:
    config = RunConfig.parsed(
        collections, output=str(output), subscription="s", watermark_delay=1.0, land_every=0.5, **more
    )
    return LocalStream(config, broker, free_landing(output), clock, clock)


def test_a_forgotten_collection_in_a_stream(tmp_path: Path) -> None:
    clock = Clock(10.0)
    broker = Broker(clock)
    engine = stream(tmp_path / "out", clock, broker, ONE)
    sent = [c for c in with_duplicates(fleet(TWO)) if c.epoch == 0]
    mine = [c for c in fleet(ONE) if c.epoch == 0]
    for data in [
        *(message(ONE, c) for c in mine),
        *(message(TWO, c) for c in sent[1:]),
        *singles(TWO, sent[0]),
        b"",
        b"junk",
    ]:
        broker.publish(data)
    engine.step()
    clock.now = 3600 + 1800 + 5
    for _ in range(4):
        engine.step()
    engine.stop()
    first = json.loads((tmp_path / "out" / "run.json").read_text())
    check_books(first)
    refused = sum(len(c.report_ids) for c in sent)
    assert first["accounting"]["total"]["rejected"] == {"malformed": 2, "unknown_collection": refused}
    before = newest(tmp_path / "out")
    done = replay(tmp_path / "out" / "rejects", (ONE, TWO))
    assert (done.before, done.after) == (refused + 2, 2)
    assert done.revised == (("two", 0, 0),)
    with_latest(tmp_path / "out")
    found = newest(tmp_path / "out")
    assert {key: found[key] for key in before} == before
    write(tmp_path / "in", TWO, sent)
    assert {
        k: v for k, v in without_revision(tmp_path / "out").items() if k not in before
    } == expected_support([TWO], (tmp_path / "in").iterdir())
    check_books(done.record.as_record())
    again = replay(tmp_path / "out" / "rejects", (ONE, TWO))
    assert again.revised == ()
    assert newest(tmp_path / "out") == found
    check_books(again.record.as_record())


def test_a_replay_removes_nothing_that_its_stream_keeps(tmp_path: Path) -> None:
    clock = Clock(10.0)
    broker = Broker(clock)
    years = 10 * 366 * 86_400
    engine = stream(tmp_path / "out", clock, broker, ONE, keep_landed=years)
    mine, other = ([c for c in fleet(one) if c.epoch == 0] for one in (ONE, TWO))
    for agreed, columns in ((ONE, mine), (TWO, other)):
        for each in columns:
            broker.publish(message(agreed, each))
    engine.step()
    clock.now = 3 * 366 * 86_400
    for _ in range(4):
        engine.step()
    engine.stop()

    def landed() -> int:
        engine = stream(tmp_path / "out", clock, broker, ONE, keep_landed=years)
        return engine._state.landed_rows

    there = landed()
    assert there
    assert replay(tmp_path / "out" / "rejects", (ONE,)).revised == ()
    assert landed() == there
    done = replay(tmp_path / "out" / "rejects", (ONE, TWO))
    assert (done.after, done.revised) == (0, (("two", 0, 0),))
    write(tmp_path / "in", TWO, other)
    counted = {k: v for k, v in without_revision(tmp_path / "out").items() if k[0] == TWO.digest_hex}
    assert counted == expected_support([TWO], (tmp_path / "in").iterdir())


def test_a_replay_waits_for_the_stream_to_stop(tmp_path: Path) -> None:
    clock = Clock(10.0)
    broker = Broker(clock)
    engine = stream(tmp_path / "out", clock, broker, ONE)
    broker.publish(b"junk")
    for _ in range(3):
        engine.step()
    with Landing(str(tmp_path / "out")).locked(), pytest.raises(LdpError, match="E-STREAM-BUSY"):
        replay(tmp_path / "out" / "rejects", (ONE,))
    engine.stop()
    assert replay(tmp_path / "out" / "rejects", (ONE,)).revised == ()


def test_a_tolerance_that_was_too_small(tmp_path: Path) -> None:
    strict = collection("grr", name="one", epochs=HOUR, allowed_lateness=1800, future_tolerance=60)
    assert strict.digest == ONE.digest
    clock = Clock(10.0)
    broker = Broker(clock)
    engine = stream(tmp_path / "out", clock, broker, strict)
    batches = [c for c in fleet(ONE) if c.epoch == 1]
    broker.publish(message(ONE, batches[0]))
    engine.step()
    clock.now = 3700
    broker.publish(message(ONE, batches[1]))
    broker.publish(message(ONE, batches[0]))
    for _ in range(4):
        engine.step()
    clock.now = 2 * 3600 + 5
    for _ in range(4):
        engine.step()
    engine.stop()
    size = len(batches[0].report_ids)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["accounting"]["total"]["rejected"] == {
        "future_epoch": size
    }
    done = replay(tmp_path / "out" / "rejects", (ONE,))
    total = done.record.accounting.total.as_record()
    # The same reports had come again in time: replayed, they are repeats, as if never rejected.
    assert (total["rejected"], total["duplicate"]) == ({}, size)
    assert total["counted"] == size + len(batches[1].report_ids)
    check_books(done.record.as_record())
