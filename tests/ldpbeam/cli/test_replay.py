"""After a replay the counts are what they would be had nothing been rejected."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.cli.replay import replay_rejects as replay
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.errors import LdpError, UsageError
from ldpbeam.job.config import RunConfig
from ldpbeam.protocols import Parameters
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
STRETCHES = replace(
    ONE,
    domain=Domain(24, ordered=True),
    protocol_name="olh",
    consistency="ordered",
    parameters=Parameters(epsilon=1.0, hash_family="interval"),
)
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
    files = sorted((tmp_path / "in").iterdir())[:2]
    whole = [file.read_bytes() for file in files]
    for file, content, left in zip(files, whole, (3, len(whole[1]) * 2 // 3), strict=True):
        file.write_bytes(content[:left])
    first = execute(ONE, tmp_path / "in", tmp_path / "out", max_error_fraction=1.0)
    assert "truncated" in first.total["rejected"]
    for file, content in zip(files, whole, strict=True):
        file.write_bytes(content)
    done = replay(tmp_path / "out" / "rejects", (ONE,))
    assert done.revised == (("one", 0, 0), ("one", 1, 1))
    assert without_revision(tmp_path / "out") == expected_support([ONE], sorted((tmp_path / "in").iterdir()))
    for epoch, panes in enumerate((["on_time"], ["on_time", "replay"])):  # of the first, nothing was read
        name = f"one-{ONE.digest_hex}-epoch-{epoch:06d}.json"
        record = json.loads((tmp_path / "out" / "accounting" / name).read_text())
        assert [r["pane"] for r in record["revisions"]] == panes
    assert list((tmp_path / "out" / "rejects").iterdir()) == []


def test_counts_of_distributions_follow_the_newest_revision(tmp_path: Path) -> None:
    """Those of a mended epoch under its new number, and those of another one also where they were lost."""
    write(tmp_path / "in", STRETCHES, fleet(STRETCHES))
    victim = sorted((tmp_path / "in").iterdir())[1]
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) * 2 // 3])
    execute(STRETCHES, tmp_path / "in", tmp_path / "out", max_error_fraction=1.0)
    victim.write_bytes(whole)
    lost = tmp_path / "out" / "counts" / f"one-{STRETCHES.digest_hex}-epoch-000000-r000.parquet"
    lost.unlink()
    replay(tmp_path / "out" / "rejects", (STRETCHES,))
    again = execute(STRETCHES, tmp_path / "in", tmp_path / "again").output
    found, expected = (ldpbeam.read_counts(folder).to_pylist() for folder in (tmp_path / "out", again))
    assert [(row["revision"], row["pane"]) for row in found][:2] == [(0, "on_time"), (1, "replay")]
    assert [row["counts"] for row in found] == [row["counts"] for row in expected]
    check = json.loads((tmp_path / "out" / "run.json").read_text())["files"]
    for file in check:
        assert hashlib.sha256((tmp_path / "out" / file["path"]).read_bytes()).hexdigest() == file["sha256"]


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


def singles(agreed: Collection, columns: ReportColumns) -> list[bytes]:
    return [
        report_pb2.Report(
            digest=agreed.digest, epoch=columns.epoch, report_id=int(name), payload=payload.tobytes()
        ).SerializeToString()
        for name, payload in zip(columns.report_ids, columns.payloads, strict=True)
    ]


class Streamed:
    """A stream over a broker of its own, stepped at times that a test sets."""

    def __init__(self, folder: Path, *collections: Collection, **more: Any) -> None:
        self.output = folder / "out"
        self.rejects = self.output / "rejects"
        more |= {"subscription": "s", "watermark_delay": 1.0, "land_every": 0.5}
        self.config = RunConfig.parsed(collections, output=str(self.output), **more)
        self.clock = Clock(10.0)
        self.broker = Broker(self.clock)
        self.engine = self.opened()

    def opened(self) -> LocalStream[Message]:
        return LocalStream(self.config, self.broker, free_landing(self.output), self.clock, self.clock)

    def step(self, *messages: bytes, now: float | None = None, times: int = 1) -> None:
        self.clock.now = self.clock.now if now is None else now
        for data in messages:
            self.broker.publish(data)
        for _ in range(times):
            self.engine.step()

    def end(self) -> Any:
        """Stop it; its record."""
        self.engine.stop()
        return json.loads((self.output / "run.json").read_text())


def test_a_forgotten_collection_in_a_stream(tmp_path: Path) -> None:
    one = Streamed(tmp_path, ONE)
    sent = [c for c in with_duplicates(fleet(TWO)) if c.epoch == 0]
    mine = [batch_message(c) for c in fleet(ONE) if c.epoch == 0]
    one.step(*mine, *(batch_message(c) for c in sent[1:]), *singles(TWO, sent[0]), b"", b"junk")
    one.step(now=3600 + 1800 + 5, times=4)
    first = one.end()
    check_books(first)
    refused = sum(len(c.report_ids) for c in sent)
    assert first["accounting"]["total"]["rejected"] == {"malformed": 2, "unknown_collection": refused}
    before = newest(one.output)
    done = replay(one.rejects, (ONE, TWO))
    assert (done.before, done.after) == (refused + 2, 2)
    assert done.revised == (("two", 0, 0),)
    with_latest(one.output)
    found = newest(one.output)
    assert {key: found[key] for key in before} == before
    write(tmp_path / "in", TWO, sent)
    added = {k: v for k, v in without_revision(one.output).items() if k not in before}
    assert added == expected_support([TWO], (tmp_path / "in").iterdir())
    check_books(done.record.as_record())
    again = replay(one.rejects, (ONE, TWO))
    assert again.revised == ()
    assert newest(one.output) == found
    check_books(again.record.as_record())


def test_a_replay_removes_nothing_that_its_stream_keeps(tmp_path: Path) -> None:
    one = Streamed(tmp_path, ONE, keep_landed=10 * 366 * 86_400)
    mine, other = ([c for c in fleet(agreed) if c.epoch == 0] for agreed in (ONE, TWO))
    one.step(*(batch_message(c) for c in mine), *(batch_message(c) for c in other))
    one.step(now=3 * 366 * 86_400, times=4)
    one.end()
    there = one.opened().state.landed_rows
    assert there
    assert replay(one.rejects, (ONE,)).revised == ()
    assert one.opened().state.landed_rows == there
    done = replay(one.rejects, (ONE, TWO))
    assert (done.after, done.revised) == (0, (("two", 0, 0),))
    write(tmp_path / "in", TWO, other)
    counted = {k: v for k, v in without_revision(one.output).items() if k[0] == TWO.digest_hex}
    assert counted == expected_support([TWO], (tmp_path / "in").iterdir())


def test_a_replay_waits_for_the_stream_to_stop(tmp_path: Path) -> None:
    one = Streamed(tmp_path, ONE)
    one.step(b"junk", times=3)
    with Landing(str(one.output)).locked(), pytest.raises(LdpError, match="E-STREAM-BUSY"):
        replay(one.rejects, (ONE,))
    one.end()
    assert replay(one.rejects, (ONE,)).revised == ()


def test_a_tolerance_that_was_too_small(tmp_path: Path) -> None:
    strict = collection("grr", name="one", epochs=HOUR, allowed_lateness=1800, future_tolerance=60)
    assert strict.digest == ONE.digest
    one = Streamed(tmp_path, strict)
    batches = [c for c in fleet(ONE) if c.epoch == 1]
    early, other = (batch_message(c) for c in batches[:2])
    one.step(early)
    one.step(other, early, now=3700, times=4)
    one.step(now=2 * 3600 + 5, times=4)
    size = len(batches[0].report_ids)
    assert one.end()["accounting"]["total"]["rejected"] == {"future_epoch": size}
    done = replay(one.rejects, (ONE,))
    total = done.record.accounting.total.as_record()
    # The same reports had come again in time: replayed, they are repeats, as if never rejected.
    assert (total["rejected"], total["duplicate"]) == ({}, size)
    assert total["counted"] == size + len(batches[1].report_ids)
    check_books(done.record.as_record())
