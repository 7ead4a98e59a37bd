"""Random schedules: whatever happens in whatever order, no report is lost and none is counted twice.

A state machine sends, repeats, delays, reorders and damages messages, moves the clock, and lets the engine
step, stop, die at a chosen point of its work and start again, with the same collections or with others. The
engine, its disk and its tables are the real ones; broker and clock are in memory. After every action a reader
looks at what is published; at every stop everything is compared with :class:`tests.reference.stream.Model`.

``make schedules`` has 200 of them, ``make nightly`` 1,000 more.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine.engine import LocalStream
from ldpbeam.job.config import RunConfig
from ldpbeam.records import run_output as record
from ldpbeam.wire import report_pb2
from tests.ldpbeam.engine.broker import Clock, Message, free_landing
from tests.ldpbeam.engine.kept import CONTENT, ENGINE, kept
from tests.ldpbeam.engine.schedules import (
    AFTER,
    BEFORE,
    DOES,
    HALF,
    Death,
    Disk,
    Leases,
    Reader,
)
from tests.pipelines.running import collection, fleet
from tests.reference.stream import MICROS, Key, Model, batch_message
from tests.waiting import PATIENCE

DELAY, HOUR = 2.0, 3600


def agreed(protocol: str, size: int, name: str, **changes: Any) -> Collection:
    fields = {"epochs": Epochs(HOUR, 0, 2000), "allowed_lateness": 1800, **changes}
    return collection(protocol, size, name, **fields)


A, A2 = (agreed("grr", 4, "screens", version=version) for version in (1, 2))
RETIRED = replace(A, retired=22 * HOUR)
B = agreed("loloha", 5, "minutes", epochs=Epochs(1800, 900, 4000), allowed_lateness=600)
GIVEN = {
    "both": (A, B),
    "retired": (RETIRED, A2, B),
    "second": (A2, B),
    "minutes": (B,),
    "screens": (A,),
}
EVERYTHING = (A, A2, B)
STRANGER = agreed("grr", 3, "stranger")
SENDERS = st.integers(0, 9)
"""Mostly devices of collections that the engine is given."""

PAYLOADS = {
    c.digest: [bytes(row) for batch in fleet(c, 60, 1) for row in batch.payloads]
    for c in (*EVERYTHING, STRANGER)
}
NUMBERS = st.integers(0, 2**32 - 1)

Reports = list[tuple[int, bytes]]


def batch(digest: int, epoch: int, reports: Reports) -> bytes:
    return batch_message(digest, epoch, [name for name, _ in reports], b"".join(p for _, p in reports))


def single(digest: int, epoch: int, name: int, payload: bytes) -> bytes:
    return report_pb2.Report(digest=digest, epoch=epoch, report_id=name, payload=payload).SerializeToString()


DAMAGE = ("empty", "junk", "cut", "length", "digest", "value", "epoch", "count", "bit", "none")


def action(weight: int, name: str, **arguments: st.SearchStrategy[Any]) -> list[st.SearchStrategy[Any]]:
    """Something to do, so many times as likely as others."""
    return [st.tuples(st.just(name), st.fixed_dictionaries(arguments))] * weight


ACTIONS = [
    *action(
        9,
        "send",
        who=SENDERS,
        ahead=st.sampled_from((-3, -1, -1, 0, 0, 0, 0, 0, 1, 3)),
        n=st.integers(1, 20),
        how=st.sampled_from(("batch", "batch", "single")),
        ago=st.sampled_from((0, 0, 0, 0, 5, 1900, HOUR, 2 * HOUR)),
        draw=NUMBERS,
    ),
    *action(3, "repeat", draw=NUMBERS, other=st.booleans(), ago=st.sampled_from((0, 0, 1900))),
    *action(2, "outage", who=SENDERS, draw=NUMBERS),
    *action(1, "reorder", draw=NUMBERS),
    *action(4, "corrupt", who=SENDERS, draw=NUMBERS),
    *action(1, "deliver_again", draw=NUMBERS),
    *action(1, "leases_are_over"),
    *action(1, "jump", by=st.sampled_from((0.0, 0.0, 90.0, 86400.0, 864000.0, -3600.0, -86400.0))),
    *action(6, "advance", by=st.sampled_from(("a minute", "half", "end", "end", "close", "hours"))),
    *action(3, "step", times=st.integers(1, 5)),
    *action(6, "settle"),
    *action(1, "stop", given=st.sampled_from(("", "", *GIVEN)), over=st.booleans()),
    *action(1, "crash", given=st.sampled_from(("", "", "", *GIVEN)), over=st.booleans()),
    *action(6, "die", draw=NUMBERS, who=SENDERS, again=st.booleans(), over=st.booleans()),
]
"""One rule for all of them: with a rule for each, Hypothesis leaves out half of them in every schedule."""


class Schedule(RuleBasedStateMachine):
    """One engine after the other on one output directory."""

    @initialize(
        given=st.sampled_from(("both", "retired", "second")),
        land=st.sampled_from((3, 12, 1000)),
        early=st.sampled_from((0, 0, 600)),
        keep=st.sampled_from((0, 1800, 7 * 86400)),
        books=st.sampled_from((0, 1, 1, 128)),
        errors=st.sampled_from((0.1, 1.0)),
        draw=NUMBERS,
    )
    def begin(
        self, given: str, land: int, early: int, keep: int, books: int, errors: float, draw: int
    ) -> None:
        self.output = Path(tempfile.mkdtemp(prefix="schedule-")).resolve()
        self.clock = Clock(20.0 * HOUR + 10)
        self.disk = Disk(self.output)
        self.broker = Leases(self.clock, self.disk)
        self.broker.before_acknowledge = self.safe_before_acknowledged
        self.reader = Reader(self.output, self.disk)
        self.disk.when_replaced = self.seen_at_once
        self.disk.when_committed = self.learn
        self.model = Model()
        self.landed: dict[int, list[Message]] = {}
        self.landed_numbers: set[int] = set()
        self.sent: list[tuple[int, int, Reports]] = []
        self.config = RunConfig.parsed(
            GIVEN[given],
            output=str(self.output),
            subscription="s",
            watermark_delay=DELAY,
            land_every=1.0,
            land_messages=land,
            early_every=early,
            keep_landed=keep,
            patience=6 * 86400.0,
            keep_accounts=books,
            max_error_fraction=errors,
        )
        self.stack = ExitStack()
        self.stack.enter_context(self.disk)
        # A quarter of the time goes into asking for the versions of packages, which do not change.
        self.stack.enter_context(mock.patch.object(record, "version", cache(version)))
        self.start()

    # --- what the engine does

    def start(self) -> None:
        """With a death pending it may take two."""
        while True:
            if self.run(lambda: None, new=True):
                return

    def run(self, do: Callable[[], Any], new: bool = False) -> bool:
        """Something of the engine's, after which the outside world looks. Gives whether it lives."""
        try:
            if new:
                self.broker.drawn.clear()
                self.engine: LocalStream[Message] = LocalStream(
                    self.config, self.broker, free_landing(self.output), self.clock.wall, self.clock
                )
                assert not list(self.output.glob("landing/*.tmp")), "what is unfinished is cleared away"
            do()
        except BaseException:
            if not self.disk.dead:
                raise
        self.disk.death = None
        alive, self.disk.dead = not self.disk.dead, False
        self.reader.look()
        if alive and not new:
            # A clock is believed that is wrong by less than a second.
            assert self.engine.watermark <= max(0, round((self.clock.now - DELAY + 1.001) * MICROS))
        return alive

    def learn(self) -> None:
        """A new segment, read with other means than the engine's."""
        said = [json.loads(content) for content in kept(self.output, ENGINE).values()]
        if not said or said[0]["number"] == max(self.landed, default=0):
            return
        messages = list(self.broker.drawn)
        self.broker.drawn.clear()
        number, watermark = said[0]["number"], said[0]["watermark"]
        assert number == max(self.landed, default=0) + 1
        assert said[0]["messages"] == len(messages) + sum(map(len, self.landed.values()))
        for message in messages:
            if message.number in self.broker.orderly:
                # Nothing that arrives in order is overtaken by the watermark.
                assert message.arrival_micros >= watermark, "overtaken by the watermark"
                self.broker.orderly.discard(message.number)
        self.landed[number] = messages
        self.landed_numbers |= {message.number for message in messages}
        self.model.land(messages, self.config.collections, watermark, self.reader.closed)

    def safe_before_acknowledged(self, messages: Sequence[Message]) -> None:
        assert not self.broker.drawn, "acknowledged before it was landed"
        assert messages == self.landed[max(self.landed)]

    def seen_at_once(self, path: str) -> None:
        name = Path(path)
        if name.parent.name == "accounting" and name.suffix == ".json":
            self.reader.read(name)

    @rule(what=st.sampled_from(range(len(ACTIONS))).flatmap(ACTIONS.__getitem__))
    def then(self, what: tuple[str, dict[str, Any]]) -> None:
        name, arguments = what
        getattr(self, name)(**arguments)

    # --- messages

    def sender(self, who: int) -> Collection:
        given = self.config.collections if who < 8 else EVERYTHING
        return given[who % len(given)]

    def some_epoch(self, agreed: Collection, ahead: int) -> int:
        return agreed.epochs.index(self.clock.now) + ahead

    def send(self, who: int, ahead: int, n: int, how: str, ago: float, draw: int) -> None:
        rng, agreed = random.Random(draw), self.sender(who)
        digest, epoch = agreed.digest, self.some_epoch(agreed, ahead)
        reports = [
            (rng.choice((rng.getrandbits(64), rng.getrandbits(64), rng.randrange(40))), payload)
            for payload in rng.choices(PAYLOADS[digest], k=n)
        ]
        self.sent.append((digest, epoch, reports))
        if how == "batch":
            self.broker.send(batch(digest, epoch, reports), ago)
        else:
            for name, payload in reports[:4]:
                self.broker.send(single(digest, epoch, name, payload), ago)

    def repeat(self, draw: int, other: bool, ago: float) -> None:
        """Reports again, as they were or with another payload."""
        if self.sent:
            rng = random.Random(draw)
            digest, epoch, reports = rng.choice(self.sent)
            some = rng.sample(reports, rng.randint(1, len(reports)))
            if other:
                some = [(name, rng.choice(PAYLOADS[digest])) for name, _ in some]
            self.broker.send(batch(digest, epoch, some + some[:2]), ago)

    def outage(self, who: int, draw: int) -> None:
        """Devices go on while the engine stands still."""
        rng = random.Random(draw)
        for _ in range(rng.randint(4, 12)):
            self.send(who, rng.choice((-1, 0, 0)), rng.randint(1, 3), "batch", 0, rng.getrandbits(32))
            self.clock.now += rng.choice((60, 900, 1800))

    def reorder(self, draw: int) -> None:
        self.broker.reorder(random.Random(draw).shuffle)

    def corrupt(self, who: int, draw: int) -> None:
        rng, agreed = random.Random(draw), self.sender(who)
        digest, epoch = agreed.digest, self.some_epoch(agreed, rng.choice((-1, 0)))
        reports = [(rng.getrandbits(64), payload) for payload in rng.choices(PAYLOADS[digest], k=5)]
        one = single(digest, epoch, *reports[0])
        sound = rng.choice((batch(digest, epoch, reports), one))
        cut = sound[: rng.randrange(len(sound))]
        # Repeated rejections are booked by their reason, and passed over by the error fraction.
        much = rng.choice((b"", b"\0\0"))
        wrong = [(name, payload[: len(much)] + much) for name, payload in [*reports, *reports[:2]]]
        at = rng.randrange(len(sound))
        self.broker.send(
            {
                "empty": b"",
                "junk": rng.randbytes(rng.randint(1, 30)),
                "cut": cut,
                "length": batch(digest, epoch, wrong),
                "digest": batch(rng.choice((STRANGER.digest, rng.getrandbits(64))), epoch, reports),
                "value": batch(digest, epoch, [*reports, (7, b"\xff"), (7, b"\xfd"), (8, b"\xfe")]),
                "epoch": batch(digest, rng.choice((-1, 10**6)), reports),
                "count": sound + b"\x28\x09",
                "bit": sound[:at] + bytes([sound[at] ^ 1 << rng.randrange(8)]) + sound[at + 1 :],
                "none": report_pb2.ReportBatch(
                    digest=digest, epoch=epoch, payloads=b"\1"
                ).SerializeToString(),
            }[rng.choice(DAMAGE)]
        )

    def deliver_again(self, draw: int) -> None:
        """What was acknowledged long ago, or is on its way."""
        if self.broker.everything:
            rng = random.Random(draw)
            for _ in range(rng.randint(1, 3)):
                self.broker.again(rng.choice(list(self.broker.everything.values())))

    def leases_are_over(self) -> None:
        self.broker.redeliver()

    # --- time and the engine

    def advance(self, by: str) -> None:
        now = self.clock.now
        end = (now // HOUR + 1) * HOUR
        self.clock.now = {
            "a minute": now + 61,
            "half": now + HOUR / 2,
            "end": end + 1,
            "close": end + 1801,
            "hours": now + 3 * HOUR,
        }[by]

    def jump(self, by: float) -> None:
        """The clock on the wall, not time; also back to what is right."""
        self.clock.ahead = by

    def step(self, times: int) -> None:
        for _ in range(times):
            assert self.run(self.engine.step)

    def settle(self) -> None:
        """Until nothing is left to do."""
        while self.broker.queue:
            assert self.run(self.engine.step)
        for _ in range(4):
            assert self.run(self.engine.step)

    def stop(self, given: str, over: bool) -> None:
        """Drained; the next engine may have other collections."""
        assert self.run(self.engine.stop)
        self.compare()
        self.change(given, over)
        self.start()

    def crash(self, given: str, over: bool) -> None:
        """Between two steps."""
        self.change(given, over)
        self.start()

    def die(self, draw: int, who: int, again: bool, over: bool) -> None:
        """In the midst of something that there is to do; perhaps once more while starting."""
        rng = random.Random(draw)
        death = Death(*rng.choice(DOES), rng.choice((1, 1, 2, 3)), rng.choice((BEFORE, HALF, AFTER)))
        during = rng.choice(("step", "step", "stop", "start"))
        note(f"{death} during {during}")
        if death.folder in {"landing", "", "rejects"}:
            self.corrupt(who, draw)
        self.send(who, rng.choice((-1, 0, 0)), 3, "batch", 0, draw)
        if death.folder not in {"landing", "rejects"} and during == "step" and rng.random() < 0.5:
            assert self.run(self.engine.step)
            self.advance("end")
        self.disk.death, alive = replace(death), True
        if during == "step":
            for _ in range(6):
                alive = alive and self.run(self.engine.step)
                self.disk.death = replace(death) if alive else None
        elif during == "stop":
            alive = self.run(self.engine.step)
            self.disk.death = replace(death)
            alive = alive and self.run(self.engine.stop)
        if again or during == "start":
            self.disk.death = Death("unlink", rng.choice(("landing", "rejects")), 1, death.moment)
        if over:
            self.broker.redeliver()
        self.start()

    def change(self, given: str, over: bool) -> None:
        if given:
            self.config = replace(self.config, collections=GIVEN[given])
        if over:
            self.broker.redeliver()

    # --- what must hold when all is told

    def compare(self) -> None:
        """Everything published, against the model."""
        given = {c.digest_hex for c in self.config.collections}
        model, books = self.model, self.reader.books
        expected = {key for key in model.lines if key[1] is None or key[0] in given}
        assert expected <= books.keys() <= model.lines.keys()
        for key in expected:
            self.compare_line(key, books[key])
        assert self.reader.rejects() == model.rows
        said = json.loads((self.output / "run.json").read_text())
        self.compare_record(said, books)
        if model.known.keys() <= given:
            assert said["accounting"]["total"] == model.total

    def compare_line(self, key: Key, book: dict[str, Any]) -> None:
        expected, found = self.model.line(key), dict(book["accounting"])
        if key[1] is None:
            assert found == {what: expected[what] for what in ("read", "rejected")}
            return
        assert found.pop("pending") == 0
        assert found == expected, key
        if key not in self.model.kept:
            assert book["revisions"] == []
            return
        assert book["revisions"], key
        newest = book["revisions"][-1]
        assert newest["n"] == expected["counted"]
        assert bool(newest["withheld"]) == (newest["file"] is None)
        if newest["file"]:
            with pq.ParquetFile(self.output / newest["file"]) as file:
                table = file.read(["support", "n", "revision"], use_threads=False)
            assert table.column("support").to_pylist() == self.model.support(key), key
            assert set(table.column("n").to_pylist()) == {expected["counted"]}
            assert set(table.column("revision").to_pylist()) == {newest["revision"]}

    def compare_record(self, said: dict[str, Any], books: dict[Key, dict[str, Any]]) -> None:
        """run.json says what the books say."""
        assert said["status"] == "stopped"
        total: Counter[str] = Counter()
        for book in books.values():
            line = book["accounting"]
            plain = ("read", "counted", "late", "duplicate", "repeated")
            total.update({what: line.get(what, 0) for what in plain})
            total.update({f"rejected {reason}": n for reason, n in line["rejected"].items()})
        whole = dict(said["accounting"]["total"])
        rejected = {f"rejected {reason}": n for reason, n in whole.pop("rejected").items()}
        assert +total == +Counter({**whole, **rejected})
        lines = {(line["digest"], line["epoch"]): line for line in said["accounting"]["epochs"]}
        own = self.own_files()
        assert lines.keys() == own
        others = {key for key in books if key[1] is not None} - own
        assert others <= self.reader.archived
        assert (said["accounting"].get("archived") or {"epochs": 0})["epochs"] == len(others)
        for key, line in lines.items():
            said_of = {name: n for name, n in books[key]["accounting"].items() if name != "pending"}
            assert said_of == {name: line[name] for name in said_of}
        named = sorted(
            r["file"] for k, b in books.items() if k in own for r in b.get("revisions", ()) if r["file"]
        )
        assert [f["path"] for f in said["files"]] == named
        assert said["stream"]["segments"] == max(self.landed, default=0)

    def own_files(self) -> set[Key]:
        """Epochs that have a file of their own in accounting/."""
        found = (json.loads(path.read_text()) for path in self.output.glob("accounting/*-epoch-*.json"))
        return {(record["digest"], record["epoch"]) for record in found}

    def teardown(self) -> None:
        """All leases run out, all collections are given, all epochs close: nothing may be missing."""
        if not hasattr(self, "stack"):
            return
        try:
            with self.stack:
                self.finish()
        finally:
            shutil.rmtree(self.output)

    def finish(self) -> None:
        self.clock.ahead = 0.0
        self.config = replace(self.config, collections=EVERYTHING)
        self.broker.redeliver()
        self.start()
        self.settle()
        assert not self.broker.queue
        assert not self.broker.out
        assert self.landed_numbers == self.broker.everything.keys(), "messages are lost"
        assert {m.number for m in self.broker.acknowledged} == self.broker.everything.keys()
        self.clock.now += self.config.engine.patience + 8 * HOUR
        self.settle()
        assert self.run(self.engine.stop)
        self.compare()
        for key, book in self.reader.books.items():
            assert key[1] is None or book["closed"], "an epoch is open for ever"
        self.late_ones_come_to_archived_epochs()
        self.everything_is_cleared_away()

    def late_ones_come_to_archived_epochs(self) -> None:
        """Of any age: their books say so, and nothing else of them changes."""
        for _ in range(2):
            self.start()
            for message in list(self.broker.everything.values())[::3][:6]:
                self.broker.again(message)
            self.settle()
            assert self.run(self.engine.stop)
            self.compare()

    def everything_is_cleared_away(self) -> None:
        """Once nobody needs it; and without it, an engine knows as much."""
        self.clock.now += self.config.engine.keep_landed + 8 * HOUR
        self.settle()
        assert self.run(self.engine.stop)
        left = sorted(path.name for path in self.output.glob("landing/*"))
        assert left == ["engine.sqlite", "lock", "sentinel"]
        assert not kept(self.output, CONTENT), "landed for ever"
        self.start()
        assert self.run(self.engine.stop)
        self.compare()


@pytest.mark.timeout(8 * PATIENCE)
@pytest.mark.parametrize(
    "part", [*range(4), *(pytest.param(i, marks=pytest.mark.slow) for i in range(4, 24))]
)
@pytest.mark.thorough
def test_a_report_is_never_lost_and_never_counted_twice(part: int) -> None:
    machine = type("Schedule", (Schedule,), {})
    seed(part)(machine)
    chosen = settings(
        max_examples=50,
        stateful_step_count=36,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine, settings=chosen)
