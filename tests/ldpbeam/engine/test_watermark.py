"""The watermark under load, under stale stamps and under clocks that are wrong, with a simulated time.

The truth is a number that only the simulation moves. The engine reads it through a wall clock that may lie
and a steady clock that does not know the date; the broker stamps messages with it. Two things must hold
whatever the wall clock says: the watermark is never later than a right clock would have it (so no epoch
closes too early), and while messages come it is at most ``settle`` and two intervals behind.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine import watermark
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.sources.source import MessageSource
from ldpbeam.engine.watermark import TimeKeeper
from ldpbeam.job.config import RunConfig
from ldpbeam.records.run_record import ClockRecord
from ldpbeam.wire import report_pb2
from tests.ldpbeam.engine.broker import free_landing
from tests.pipelines.running import collection

DAY, DELAY, EVERY, PATIENCE = 86400.0, 10.0, 2.0, 600.0
BEGIN = 1_000_000_000.0
ONE = collection("grr", 4, "one", epochs=Epochs(30, int(BEGIN) - 30, 1 << 20), allowed_lateness=0)
TOLERANCE = 1.1
"""Seconds that a clock may be wrong unnoticed, and the length of a pull."""


class Message(NamedTuple):
    """A named tuple, which is made more quickly than a frozen dataclass: there are millions."""

    data: bytes
    arrival_micros: int
    published_micros: int
    stamped: bool = True


@dataclass
class World:
    """True time, a wall clock that is ahead of it, a steady clock that may stand still (a machine asleep)."""

    true: float = BEGIN
    ahead: Callable[[float], float] = lambda passed: 0.0
    steady: float = 5000.0

    def wall(self) -> float:
        return self.true + self.ahead(self.true - BEGIN)

    def pass_by(self, seconds: float) -> None:
        self.true += seconds
        self.steady += seconds


Stamp = Callable[[int, float], float]


@dataclass
class Fountain(MessageSource[Message]):
    """So many messages per second, each delivered as soon as it is there, in order."""

    world: World
    rate: float
    sound: Callable[[int], bool] = lambda number: True
    stamp: Stamp = lambda number, now: now
    separate: bool = True
    """Whether the broker's time is known beside the stamp."""
    online: bool = True
    number: int = 0
    made: float = 0.0
    last: float = BEGIN

    def __post_init__(self) -> None:
        self._last_epoch, self._data = -1, b""
        self.waiting: list[Message] = []

    def publish(self) -> None:
        """What devices sent since they were looked at last."""
        begin, self.last = self.last, self.world.true
        self.made += (self.last - begin) * self.rate
        new, self.made = int(self.made), self.made - int(self.made)
        for i in range(new):
            at = begin + (self.last - begin) * (i + 1) / new
            self.number += 1
            stamp = self.stamp(self.number, at)
            micros = round((at if self.separate else stamp) * 1e6)
            self.waiting.append(
                Message(self.report(at) if self.sound(self.number) else b"\xff", round(stamp * 1e6), micros)
            )

    def report(self, at: float) -> bytes:
        epoch = ONE.epochs.index(at)
        if epoch != self._last_epoch:
            one = report_pb2.Report(digest=ONE.digest, epoch=epoch, report_id=epoch, payload=b"\1")
            self._last_epoch, self._data = epoch, one.SerializeToString()
        return self._data

    def connected(self) -> bool:
        return self.online

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Message]:
        self.publish()
        if not (self.waiting and self.online):
            self.world.pass_by(min(timeout_seconds, 0.1 if self.rate and self.online else timeout_seconds))
            self.publish()
        if not self.online:
            return []
        some = self.waiting[:limit_messages]
        self.waiting = self.waiting[limit_messages:]
        return some

    def acknowledge(self, messages: object) -> None:
        return None


def config(output: Path, **more: Any) -> RunConfig:
    base = RunConfig.parsed(
        (ONE,), output=str(output), subscription="s", land_every=EVERY, watermark_delay=DELAY
    )
    return base.changed(late_every=3600, patience=PATIENCE, **more)


def engine(output: Path, world: World, source: Any, **more: Any) -> LocalStream[Message]:
    return LocalStream(config(output, **more), source, free_landing(output), world.wall, lambda: world.steady)


def closed(output: Path) -> set[int]:
    found = (json.loads(p.read_text()) for p in output.glob("accounting/*-epoch-*.json"))
    return {record["epoch"] for record in found if record["closed"]}


def run(stream: LocalStream[Message], world: World, seconds: float, lag_from: float = math.inf) -> None:
    """Steps until so much true time has passed; neither too early nor too late."""
    end, begin = world.true + seconds, world.true
    while world.true < end:
        stream.step()
        mark = stream.watermark / 1e6
        assert mark <= world.true - DELAY + TOLERANCE, "ahead of what a right clock says"
        if world.true - begin >= lag_from:
            assert world.true - mark <= DELAY + 2 * EVERY, "left behind"


# --- load, garbage, stamps


SPOILT: dict[str, dict[str, Any]] = {
    "all are garbage": {"sound": lambda n: False},
    "a stale stamp in each interval, and the broker's time is not known": {
        "stamp": lambda n, now: 1.0 if n % 1000 == 0 else now,
        "separate": False,
    },
    "a third from tomorrow": {"stamp": lambda n, now: now + DAY * (n % 3 == 0)},
    "one stamp of the year 9999 in each interval": {"stamp": lambda n, now: 2.5e11 if n % 500 == 0 else now},
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("spoilt", SPOILT)
def test_what_senders_do_wrong(tmp_path: Path, spoilt: str) -> None:
    world = World()
    stream = engine(tmp_path, world, Fountain(world, 500, **SPOILT[spoilt]))
    run(stream, world, 60, lag_from=DELAY)


@pytest.mark.thorough
def test_nothing_but_stale_stamps_hold_it_for_a_while_only(tmp_path: Path) -> None:
    """The publisher's clock stands still: results wait for ``patience``, then go on without him."""
    world = World()
    source = Fountain(world, 5, stamp=lambda n, now: 1000.0)
    stream = engine(tmp_path, world, source)
    run(stream, world, PATIENCE - 10)
    assert stream.watermark == 0
    run(stream, world, 120, lag_from=30)


@pytest.mark.thorough
def test_a_replay_is_followed_at_its_own_pace(tmp_path: Path) -> None:
    """Messages of yesterday, sent again as fast as they came then."""
    world = World()
    source = Fountain(world, 5, stamp=lambda n, now: now - DAY)
    stream = engine(tmp_path, world, source)
    run(stream, world, PATIENCE + 60)
    lag = world.true - stream.watermark / 1e6
    assert DAY + DELAY - EVERY <= lag <= DAY + DELAY + 2 * EVERY


# --- clocks


WRONG: dict[str, Callable[[float], float]] = {
    "right": lambda passed: 0.0,
    "a day ahead": lambda passed: DAY,
    "a day behind": lambda passed: -DAY,
    "jumps a day ahead": lambda passed: DAY * (passed > 70),
    "jumps a day back": lambda passed: -DAY * (passed > 70),
    "jumps two days ahead and back after ten seconds": lambda passed: 2 * DAY * (70 < passed < 80),
    "is wrong for one reading now and then": lambda passed: DAY * (int(passed * 1000) % 997 < 60),
    "is a day ahead and put right": lambda passed: DAY * (passed < 75),
    "swings": lambda passed: 40.0 * math.sin(passed),
    "runs a tenth too fast": lambda passed: passed / 10,
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("rate", [1, 40])
@pytest.mark.thorough
def test_clocks(tmp_path: Path, rate: float, wrong: str) -> None:
    """While messages come they say what time it is."""
    world = World(ahead=WRONG[wrong])
    run(engine(tmp_path, world, Fountain(world, rate)), world, 150, lag_from=3 * DELAY)


def opened(output: Path, world: World, **more: Any) -> tuple[LocalStream[Message], Fountain]:
    """An engine with an open epoch, in silence."""
    source = Fountain(world, 10)
    stream = engine(output, world, source, **more)
    run(stream, world, 20)
    source.rate = 0
    return stream, source


def test_one_wrong_reading_closes_nothing(tmp_path: Path) -> None:
    """In silence nobody contradicts a clock but the steady one."""
    world = World()
    stream, source = opened(tmp_path, world)
    seen = iter([0.0] * 3 + [DAY] + [0.0] * 3 + [DAY] * 2)
    world.ahead = lambda passed: next(seen, 0.0)
    run(stream, world, 8)
    assert closed(tmp_path) == set()
    source.rate = 10
    run(stream, world, 60, lag_from=20)
    assert closed(tmp_path) >= {1}
    assert json.loads((tmp_path / "run.json").read_text())["accounting"]["total"]["late"] == 0


def test_a_jump_in_silence_holds_until_it_has_lasted(tmp_path: Path) -> None:
    """Epochs close by the steady clock meanwhile; a right jump is believed in the end."""
    world = World()
    stream, _ = opened(tmp_path, world)
    world.ahead = lambda passed: DAY
    run(stream, world, PATIENCE - 20)
    assert closed(tmp_path) == {1}
    for _ in range(30):
        stream.step()
    assert stream.watermark / 1e6 > world.true + DAY - 60


def test_a_jump_that_messages_have_contradicted_is_not_believed_in_silence(tmp_path: Path) -> None:
    world = World()
    source = Fountain(world, 10)
    stream = engine(tmp_path, world, source)
    run(stream, world, 20)
    world.ahead = lambda passed: DAY
    run(stream, world, 20)
    source.rate = 0
    run(stream, world, PATIENCE + 60)


def test_a_wrong_time_that_was_believed_is_taken_back_by_messages(tmp_path: Path) -> None:
    """What has been published as closed stays closed, nothing else does: not even where an engine dies."""
    world = World()
    stream, source = opened(tmp_path, world)
    stream.stop()
    world.steady = 0.0  # the machine starts again
    world.ahead = lambda passed: DAY
    stream = engine(tmp_path, world, source)
    while world.true < BEGIN + PATIENCE + 60:
        stream.step()
    assert stream.watermark / 1e6 > world.true + DAY / 2
    assert closed(tmp_path) == {1}
    world.ahead = lambda passed: 0.0
    source.rate, source.last = 10, world.true
    run_from = world.true
    while world.true < run_from + 90:
        stream.step()
    assert world.true - stream.watermark / 1e6 <= DELAY + 2 * EVERY
    world.pass_by(60)  # while no engine is there
    stream = engine(tmp_path, world, source)
    run(stream, world, 60, lag_from=40)
    assert stream.status.late == 0


@pytest.mark.parametrize("ahead", [DAY, -DAY, 0.0])
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.cases(2)
def test_a_restart_with_another_clock(tmp_path: Path, ahead: float, same: bool) -> None:
    """The last engine's time, the steady clock of this boot and messages are asked, not the clock alone."""
    world = World()
    with mock.patch.object(watermark, "boot", lambda: "this"):
        stream, source = opened(tmp_path, world)
        stream.stop()
    world.ahead = lambda passed: ahead
    world.pass_by(5)
    if not same:
        world.steady -= 4000
    with mock.patch.object(watermark, "boot", lambda: "this" if same else "another"):
        stream = engine(tmp_path, world, source)
        run(stream, world, 100)
        # The same boot knows how late it is; after another one, silence proves nothing for a while.
        assert closed(tmp_path) == ({1} if same else set())
        source.rate = 10
        run(stream, world, 60, lag_from=40)
        assert closed(tmp_path) >= {1}


def test_an_engine_that_has_heard_nothing_yet_closes_nothing(tmp_path: Path) -> None:
    """Its clock is a day ahead; if it believed it, the first message ever would be late."""
    world = World(ahead=lambda passed: DAY)
    source = Fountain(world, 0)
    stream = engine(tmp_path, world, source)
    for _ in range(500):
        stream.step()
    assert stream.watermark == 0
    source.rate, source.last = 10, world.true
    run(stream, world, 90, lag_from=3 * DELAY)
    assert json.loads((tmp_path / "run.json").read_text())["accounting"]["total"]["late"] == 0


# --- backlogs, and connections


def test_a_broken_connection_is_no_silence(tmp_path: Path) -> None:
    """What is published meanwhile comes when it is mended, and is not late."""
    world = World()
    source = Fountain(world, 10)
    stream = engine(tmp_path, world, source)
    run(stream, world, 20)
    before = stream.watermark
    source.online = False
    run(stream, world, 300)
    assert stream.watermark == before
    assert stream.connected is False
    source.online = True
    run(stream, world, 60, lag_from=30)
    assert stream.connected is True
    assert json.loads((tmp_path / "run.json").read_text())["accounting"]["total"]["late"] == 0


@pytest.mark.parametrize(
    ("age", "fresh"), [(-1.0, True), (-1.0001, False), (0.0, True), (DELAY, True), (DELAY + 1e-4, False)]
)
def test_messages_are_fresh_from_a_second_ahead_to_the_end_of_the_wait(age: float, fresh: bool) -> None:
    world = World()
    keeper = TimeKeeper(world.wall, lambda: world.steady, DELAY, PATIENCE)
    assert keeper.observe_messages(age) is fresh
    assert keeper.confirmed is fresh


def test_the_keeper_follows_a_clock_that_is_slewed() -> None:
    """Network time runs a clock a little faster or slower for hours."""
    world = World(ahead=lambda passed: 0.0005 * passed)
    keeper = TimeKeeper(world.wall, lambda: world.steady, DELAY, PATIENCE)
    for _ in range(20_000):
        world.pass_by(1.0)
        keeper.observe_clocks()
        assert keeper.now() == pytest.approx(world.wall(), abs=1e-6)
    assert keeper.confirmed


@pytest.mark.parametrize(
    ("machine", "recorded", "now", "confirmed"),
    [
        ("this", ClockRecord("this", 10.0, 400.0, True, False), 440.0, True),
        ("this", ClockRecord("other", 10.0, 400.0, True, True), 1000.0, False),
        ("", ClockRecord("", 10.0, 400.0, True, True), 1000.0, False),
        ("this", ClockRecord("other", 10.0, 5000.0, True, True), 5000.0, False),
        ("this", ClockRecord("other", 10.0, 5000.0, False, True), 1000.0, False),
    ],
)
def test_a_start_goes_on_from_the_record_of_the_clock(
    machine: str, recorded: ClockRecord, now: float, confirmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the steady clock within one start of the machine; else it is at least as late as it was."""
    monkeypatch.setattr("ldpbeam.engine.watermark.boot", lambda: machine)
    keeper = TimeKeeper(lambda: 1000.0, lambda: 50.0, 30.0, 600.0, recorded)
    assert (keeper.now(), keeper.confirmed) == (now, confirmed)
    again = keeper.record()
    assert (again.boot, again.steady, again.time, again.confirmed) == (machine, 50.0, now, confirmed)
    assert again.heard == (recorded.heard and now == 440.0)
