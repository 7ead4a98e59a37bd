"""The local engine, by examples: what is told when, and what counts, with a clock that the test moves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.slices import Slices
from ldpbeam.engine import engine as module
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.results import publish_due
from ldpbeam.engine.sources.source import MessageSource
from ldpbeam.engine.storage.segment import judge
from ldpbeam.errors import LdpError
from ldpbeam.job.config import RunConfig
from ldpbeam.records.run_record import RunRecord
from ldpbeam.records.run_sentences import copied_devices
from tests.ldpbeam.engine.broker import Broker, Clock, free_landing
from tests.narrow import present
from tests.pipelines.running import check_books, collection, fleet
from tests.reference.stream import batch_message

HOUR = 3600
ONE = collection("grr", 4, "one", epochs=Epochs(HOUR, 0, 100), allowed_lateness=1800)
TWO = collection("loloha", 5, "two", epochs=Epochs(HOUR, 0, 100), allowed_lateness=1800)
PAYLOADS = {c.digest: fleet(c, 100, 1)[0].payloads.tobytes() for c in (ONE, TWO)}


class Bench:
    """An engine on an output directory, its source and its clock."""

    def __init__(self, output: Path, *collections: Collection, **settings: Any) -> None:
        self.output, self.clock = output, Clock(100.0)
        self.broker = Broker(self.clock)
        self.settings = {"watermark_delay": 2.0, "land_every": 1.0, **settings}
        self.settings.setdefault("subscription", "" if "watch" in settings else "s")
        self.start(*collections)

    def start(self, *collections: Collection) -> None:
        """Start an engine, the first one or a new one after a crash."""
        config = RunConfig.parsed(collections or (ONE,), output=str(self.output), **self.settings)
        landing = free_landing(self.output)
        self.engine = LocalStream[Any](config, self.source(), landing, self.clock.wall, self.clock)

    def source(self) -> MessageSource[Any]:
        return self.broker

    def send(self, epoch: int, names: range, agreed: Collection = ONE, at: float | None = None) -> None:
        payloads = PAYLOADS[agreed.digest][: len(names)]
        self.broker.publish(batch_message(agreed.digest, epoch, names, payloads), at)

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.engine.step()

    def until(self, moment: float) -> None:
        """The clock goes there while nothing comes, and the engine follows."""
        self.clock.now = max(self.clock.now, moment)
        self.step(4)

    @property
    def watermark(self) -> float:
        return self.engine.watermark / 1e6

    def stop(self) -> dict[str, Any]:
        self.engine.stop()
        return self.total

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.output / "run.json").read_text())
        check_books(found)
        return found

    @property
    def total(self) -> dict[str, Any]:
        total: dict[str, Any] = self.record["accounting"]["total"]
        return total

    def written(self, epoch: int, agreed: Collection = ONE) -> dict[str, Any] | None:
        """The books of an epoch, None where it has none yet."""
        name = f"{agreed.name}-{agreed.digest_hex}-epoch-{epoch:06d}.json"
        path = self.output / "accounting" / name
        found: dict[str, Any] | None = json.loads(path.read_text()) if path.is_file() else None
        return found

    def books(self, epoch: int, agreed: Collection = ONE) -> dict[str, Any]:
        return present(self.written(epoch, agreed))

    def told(self, epoch: int, agreed: Collection = ONE) -> list[tuple[str, int]]:
        """(pane, reports) of every revision."""
        record = self.written(epoch, agreed)
        return [(r["pane"], r["n"]) for r in record["revisions"]] if record else []


def test_an_epoch_from_its_first_report_to_its_last(tmp_path: Path) -> None:
    """Its result at its end, one more after late reports, books only after its close."""
    bench = Bench(tmp_path)
    bench.send(0, range(10))
    bench.send(0, range(5, 15))
    bench.step(4)
    assert bench.told(0) == []
    bench.until(HOUR + 3)
    assert bench.told(0) == [("on_time", 15)]
    assert bench.books(0)["closed"] is False
    bench.send(0, range(20, 22))
    bench.step()
    bench.until(HOUR + 100)
    assert bench.told(0) == [("on_time", 15), ("late", 17)]
    bench.until(HOUR + 1803)
    assert bench.books(0)["closed"] is True
    bench.send(0, range(30, 33))
    bench.step()
    bench.until(HOUR + 1900)
    assert bench.told(0) == [("on_time", 15), ("late", 17)]
    looked_at = bench.books(0)["revisions"][-1]["indicators"]
    signs = bench.record["indicators"]
    assert (signs["results"], signs["tests"]) == (1, len(looked_at))
    assert looked_at
    line = bench.books(0)["accounting"]
    assert [line[what] for what in ("read", "counted", "late", "duplicate", "pending")] == [25, 17, 3, 0, 0]
    # Sent again under the same id with a newly drawn payload.
    assert line["rejected"] == {"conflicting_report_id": 5}
    files = [r["file"] for r in bench.books(0)["revisions"]]
    tables = [pq.read_table(tmp_path / name) for name in files]
    assert [table["revision"][0].as_py() for table in tables] == [0, 1]
    assert [sum(table["support"].to_pylist()) for table in tables] == [15, 17]
    bench.stop()
    assert [f["path"] for f in bench.record["files"]] == files
    (warning,) = copied_devices(RunRecord.parse((tmp_path / "run.json").read_bytes(), "run.json"))
    assert "5 reports in 1 epoch (the first is 0)" in warning


def test_an_outage_makes_nothing_late(tmp_path: Path) -> None:
    """The engine is down past the close of two epochs; what arrived meanwhile arrived in time."""
    bench = Bench(tmp_path, land_messages=3)
    bench.send(0, range(5))
    bench.step(4)
    for minute in range(0, 120, 10):
        bench.clock.now = 200.0 + 60 * minute
        bench.send(int(bench.clock.now // HOUR), range(100 + minute, 104 + minute))
    bench.clock.now = 6.0 * HOUR
    bench.send(0, range(1000, 1007))
    bench.start()
    for _ in range(4):
        bench.step()
        assert bench.watermark < 200, "the backlog is not through"
    bench.until(6 * HOUR + 10)
    assert bench.watermark > 6 * HOUR
    total = bench.stop()
    assert (total["counted"], total["late"]) == (5 + 12 * 4, 7)


def test_old_messages_with_their_old_arrival(tmp_path: Path) -> None:
    """Published again into the topic days later, with the attribute that says when they were received."""
    bench = Bench(tmp_path, timestamp_attribute="received")
    bench.clock.now = 50.0 * HOUR
    for epoch in range(3):
        bench.send(epoch, range(10), at=epoch * HOUR + 30.0)
        bench.send(epoch, range(10, 13), at=(epoch + 1) * HOUR + 1800.0)  # at the close: too late
        bench.send(epoch, range(20, 24), at=(epoch + 1) * HOUR + 1799.999999)
        bench.step()
    bench.until(50 * HOUR + 10)
    for epoch in range(3):
        assert bench.told(epoch) == [("on_time", 14)]
        assert bench.books(epoch)["accounting"]["late"] == 3
    # Without it they are new messages.
    bench.send(0, range(50, 52))
    bench.step()
    bench.until(50 * HOUR + 100)
    assert bench.books(0)["accounting"]["late"] == 5


def test_a_collection_that_is_left_out_for_a_while(tmp_path: Path) -> None:
    """Its landed reports wait, its new ones are refused, its results stay; then it goes on."""
    bench = Bench(tmp_path, ONE, TWO)
    bench.send(0, range(10), TWO)
    bench.send(0, range(5))
    bench.step()
    bench.stop()
    assert bench.told(0, TWO) == [("early", 10)]
    bench.start(ONE, TWO)
    bench.send(0, range(10, 14), TWO)
    bench.step()
    bench.start()
    bench.send(0, range(20, 23), TWO)
    bench.step()
    bench.until(HOUR + 3)
    bench.stop()
    record = bench.record
    assert bench.told(0, TWO) == [("early", 10)]
    assert record["accounting"]["unattributed"] == {"read": 3, "rejected": {"unknown_collection": 3}}
    lines = {e["digest"]: (e["collection"], e["counted"]) for e in record["accounting"]["epochs"]}
    assert lines == {ONE.digest_hex: ("one", 5), TWO.digest_hex: ("", 10)}
    assert {f["path"].split("-")[0] for f in record["files"]} == {"estimates/one", "estimates/two"}
    bench.start(ONE, TWO)
    bench.step()
    bench.until(HOUR + 1900)
    assert bench.told(0, TWO) == [("early", 10), ("on_time", 14)]
    assert bench.books(0, TWO)["closed"] is True
    total = bench.stop()
    assert (total["read"], total["counted"]) == (10 + 5 + 4 + 3, 19)


def test_messages_without_a_readable_attribute_are_noted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, timestamp_attribute="received")
    for i in range(3):
        bench.send(0, range(i, i + 1))
    bench.broker.queue = [replace(m, stamped=m.number == 1) for m in bench.broker.queue]
    bench.step()
    bench.stop()
    stream = bench.record["stream"]
    assert stream["unstamped"] == 2
    assert stream["timestamp_attribute"] == "received"
    bench.start()
    bench.stop()
    assert bench.record["stream"]["unstamped"] == 2


def test_the_record_says_what_the_engine_does(tmp_path: Path) -> None:
    """There from the first moment; running until it has stopped; whole at any time."""
    bench = Bench(tmp_path)
    bench.step()
    assert bench.record["status"] == "running"
    bench.send(0, range(5))
    bench.broker.publish(b"junk")
    bench.step()
    assert bench.stop()["read"] == 6
    assert bench.record["status"] == "stopped"
    assert bench.record["stream"]["segments"] == bench.record["stream"]["landed_now"] == 1
    bench.start()
    bench.step()
    assert bench.record["status"] == "running"
    assert bench.total["read"] == 6


def test_more_lateness_does_not_open_what_is_closed(tmp_path: Path) -> None:
    """Its reports may have been cleared away: counting it again would lose them, or end the engine."""
    bench = Bench(tmp_path, keep_landed=0)
    bench.send(0, range(5))
    bench.step()
    bench.until(HOUR + 1900)
    assert bench.books(0)["closed"] is True
    assert bench.record["stream"]["landed_now"] == 0
    bench.start(replace(ONE, allowed_lateness=86400))
    bench.send(0, range(5, 8))
    bench.send(1, range(3))
    bench.step()
    bench.until(2 * HOUR + 100)
    assert bench.told(0) == [("on_time", 5)]
    assert bench.books(0)["accounting"]["late"] == 3
    assert bench.told(1) == [("on_time", 3)]


def archived(bench: Bench, epoch: int) -> Any:
    state = bench.engine.state
    with state._landing.reading() as rows:
        return state._archived_line(rows, state._archive[ONE.digest_hex, epoch])["published"]


@pytest.mark.parametrize("restart", [False, True])
def test_an_archived_epoch_comes_back_for_a_late_record(tmp_path: Path, restart: bool) -> None:
    """Its file, with all that was in it, and what came late; then it is archived again."""
    bench = Bench(tmp_path, keep_accounts=0)
    bench.send(0, range(10))
    bench.send(1, range(20, 25))
    bench.step(2)
    bench.until(4 * HOUR)
    assert bench.written(0) is None
    assert bench.record["accounting"]["archived"]["counted"] == 15
    if restart:
        bench.stop()
        bench.start()
    bench.send(0, range(50, 53))
    bench.until(4 * HOUR + 100)
    found = bench.written(0) or archived(bench, 0)
    assert (found["accounting"]["counted"], found["accounting"]["late"]) == (10, 3)
    assert [(r["pane"], r["n"]) for r in found["revisions"]] == [("on_time", 10)]
    total = bench.stop()
    assert (total["counted"], total["late"]) == (15, 3)


def test_the_oldest_epochs_are_archived_once_there_are_twice_as_many_as_asked(tmp_path: Path) -> None:
    bench = Bench(tmp_path, keep_accounts=1)
    bench.clock.now = 2.2 * HOUR
    for epoch in (3, 2, 1):
        bench.send(epoch, range(5))
        bench.step()
    bench.until(3.6 * HOUR)  # two are closed
    assert [epoch for epoch in range(4) if bench.written(epoch)] == [1, 2]
    bench.until(6 * HOUR)
    assert [epoch for epoch in range(4) if bench.written(epoch)] == [3]


@pytest.mark.parametrize("limit", ["_RESULTS_AT_ONCE", "_BYTES_AT_ONCE"])
def test_results_are_made_in_portions(tmp_path: Path, limit: str) -> None:
    bench = Bench(tmp_path)
    for epoch in (0, 1):
        bench.send(epoch, range(5))
    bench.step()
    with (
        mock.patch.object(module, limit, 1),
        mock.patch.object(module, "publish_due", wraps=publish_due) as made,
    ):
        bench.until(4 * HOUR)
    assert [len(call.args[2]) for call in made.call_args_list] == [1, 1]


def test_an_epoch_whose_reports_were_removed_is_not_counted_again(tmp_path: Path) -> None:
    """Neither without them nor at all, where a replay brings a report more."""
    bench = Bench(tmp_path, keep_landed=0)
    bench.send(0, range(5))
    bench.step()
    bench.until(HOUR + 1900)
    replayed = batch_message(ONE.digest, 0, range(5, 8), PAYLOADS[ONE.digest][:3])
    bench.engine.take_up(judge([replayed], [0], {ONE.digest: ONE}, watermark=0))
    with pytest.raises(LdpError, match=r"8 reports .* 3 are still on disk.*E-LANDING-MISSING"):
        bench.stop()
    assert bench.told(0) == [("on_time", 5)]


def test_slices_of_an_epoch_outlive_a_restart_with_further_labels(tmp_path: Path) -> None:
    """One result with all slices; an engine that knows more labels counts what another one has landed."""
    few, more = (replace(ONE, slices=Slices.of({"arm": labels})) for labels in (["b", "a"], ["a", "b", "c"]))
    bench = Bench(tmp_path, few)
    sent: dict[str, range] = {"a": range(10), "b": range(10, 30), "c": range(30, 34)}
    digests = {label: more.slice_digest((("arm", label),)) for label in sent}

    def send(label: str, names: range) -> None:
        payloads = PAYLOADS[ONE.digest][names.start : names.stop]
        bench.broker.publish(batch_message(digests[label], 0, names, payloads), None)

    send("a", sent["a"])
    send("b", sent["b"])
    send("c", sent["c"])  # refused: nobody lists it yet
    bench.step(4)
    bench.start(more)
    send("c", sent["c"])
    send("c", range(3))  # ids of other slices: one of each counts
    bench.until(HOUR + 3)
    assert bench.told(0, more) == [("on_time", 34)]
    books = bench.books(0, more)
    assert books["accounting"]["rejected"] == {"conflicting_report_id": 3}
    (named,) = (one["path"] for one in books["slices"])
    table = pq.read_table(tmp_path / named)
    sizes = dict(zip(table["slice_arm"].to_pylist(), table["n"].to_pylist(), strict=True))
    assert sizes[None] == sum(sizes[label] for label in "abc") == 34
    # An id in two slices counts once, in the slice whose payload is the smaller one.
    assert sizes["b"] == 20 and {sizes["a"] + sizes["c"]} == {14}
    again = bench.record
    assert named in [file["path"] for file in again["files"]]
    assert again["collections"][0]["slices"] == {"arm": ["a", "b", "c"]}


def test_strings_of_a_revision_follow_the_counts(tmp_path: Path) -> None:
    """Through restarts, reports that come again, and late ones: each is what a batch makes of the same."""
    words = ldpbeam.parse_collection(
        "name: words\ndomain: {strings: {max_length: 3, symbols: abcde}}\nprotocol: olh\nepsilon: 4\n"
        "epoch: {length: 1h, origin: 1970-01-01T00:00:00Z}\nallowed_lateness: 30m\n"
    )
    columns = ldpbeam.simulate(words, ["ab", "cde", "a", "dd", *["e"] * 4] * 250)
    sent = [
        batch_message(
            words.digest,
            0,
            columns.report_ids[some].tolist(),
            columns.payloads[some].tobytes(),
        )
        for some in (slice(700), slice(600, 1200), slice(1100, 2000))
    ]
    bench = Bench(tmp_path, words)
    bench.broker.publish(sent[0])
    bench.step(4)
    bench.start(words)
    bench.broker.publish(sent[1])
    bench.until(HOUR + 3)
    bench.start(words)
    bench.broker.publish(sent[2])
    bench.step()
    bench.until(HOUR + 100)
    bench.stop()
    revisions = bench.books(0, words)["revisions"]
    assert [(one["pane"], one["n"]) for one in revisions] == [("on_time", 1200), ("late", 2000)]
    for some, one in zip((sent[:2], sent), revisions, strict=True):
        wanted = ldpbeam.estimate(words, ldpbeam.admit(words, some)).drop_columns(["revision", "pane"])
        table = pq.read_table(tmp_path / one["file"])
        assert table.select(wanted.column_names).to_pylist() == wanted.to_pylist()
        assert table.num_rows > 2
