"""The engine against Pub/Sub, by its command line: windows, books, restarts, what the documentation says.

Most of these tests wait: for epochs to end, for leases to run out. So they run side by side, each with its
own topics and engines; the first one to be reported has waited for most of the others. Those that stop
and start engines use Google's fake where Go is there to build it, because the emulator goes on to deliver to
engines that are gone (tests/pubsub/emulator.py).
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from google.cloud import pubsub_v1

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection
from ldpbeam.wire import report_pb2
from tests.conftest import REPOSITORY
from tests.environment import ENVIRONMENT
from tests.pubsub.conftest import Channel
from tests.pubsub.emulator import Emulator, emulator
from tests.pubsub.engine import (
    Engine,
    Engines,
    agree,
    batch,
    batches,
    books,
    epoch_at,
    ids_landed,
    ldpbeam,
    messages_landed,
    messages_refused,
    newest,
    numbers_landed,
    panes,
    rejects,
    reports,
    retire,
    single,
    slowly,
    some,
    stopped,
    tables,
    unattributed,
)
from tests.waiting import PATIENCE, poll

pytestmark = [pytest.mark.pubsub, pytest.mark.timeout(2 * PATIENCE)]

SIDE_BY_SIDE = 4
OPERATIONS = REPOSITORY / "docs" / "operations.md"


# --- the stage


class Feeder(Thread):
    """Publishes what it is given, one message after the other, until told to stop; keeps what it sent."""

    def __init__(self, channel: Channel, messages: Iterator[bytes], every: float) -> None:
        super().__init__(daemon=True)
        self._channel, self._messages, self._every = channel, messages, every
        self._stopped = Event()
        self.sent: list[bytes] = []

    def run(self) -> None:
        for data in self._messages:
            self._channel.publish(data)
            self.sent.append(data)
            if self._stopped.wait(self._every):
                return

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@dataclass
class Stage:
    """What a test works with: a directory, a Pub/Sub, engines."""

    scratch: Path
    service: Emulator
    publisher: Any
    administrator: Any
    engines: Engines
    made: list[Channel] = field(default_factory=list)
    feeders: list[Feeder] = field(default_factory=list)

    def channel(self, project: str = "ldp-test", name: str = "") -> Channel:
        name = name or f"t{uuid4().hex}"
        topic = f"projects/{project}/topics/{name}"
        self.publisher.create_topic(name=topic)
        return self.subscribed(topic, f"projects/{project}/subscriptions/{name}")

    def subscribed(self, topic: str, subscription: str) -> Channel:
        self.administrator.create_subscription(request={"name": subscription, "topic": topic})
        self.made.append(Channel(topic, subscription, self.publisher))
        return self.made[-1]

    def feed(self, channel: Channel, messages: Iterator[bytes], every: float = 0.05) -> Feeder:
        self.feeders.append(Feeder(channel, messages, every))
        self.feeders[-1].start()
        return self.feeders[-1]

    def close(self) -> None:
        self.engines.close()
        for feeder in self.feeders:
            feeder.stop()
        for channel in self.made:
            self.administrator.delete_subscription(subscription=channel.subscription)


Body = Callable[[Stage], None]


def side_by_side(*, restarts: bool) -> Callable[[Body], Callable[..., None]]:
    """A test that begins when the first of this module does; its body runs in a thread."""

    def decorate(body: Body) -> Callable[..., None]:
        def test(scenes: dict[Body, Future[None]]) -> None:
            scenes[body].result()

        test.__name__, test.__doc__ = body.__name__, body.__doc__
        test.body, test.restarts = body, restarts  # type: ignore[attr-defined]
        return test

    return decorate


@pytest.fixture(scope="module")
def clients(service: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Any]]:
    """(service, publisher, administrator) for tests that restart engines, and for others."""
    with ExitStack() as stack:
        found = {False: service, True: service}
        if not service.exact and shutil.which("go") and not os.environ.get("LDPBEAM_PUBSUB_EMULATOR"):
            found[True] = stack.enter_context(emulator(tmp_path_factory.mktemp("exact"), "pstest"))
        made = {}
        for restarts, one in found.items():
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("PUBSUB_EMULATOR_HOST", one.host)
                publisher = pubsub_v1.PublisherClient()
                administrator = stack.enter_context(pubsub_v1.SubscriberClient())
            stack.callback(publisher.transport.close)
            stack.callback(publisher.stop)
            made[restarts] = (one, publisher, administrator)
        yield made


@pytest.fixture(scope="module")
def scenes(
    request: pytest.FixtureRequest, clients: dict[bool, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Body, Future[None]]]:
    """The chosen tests of this module, under way."""
    chosen = [
        i.function
        for i in request.session.items
        if isinstance(i, pytest.Function) and i.module is request.module
    ]
    # Those that take longest first.
    chosen = sorted((test for test in chosen if hasattr(test, "body")), key=lambda test: not test.restarts)
    stages: list[Stage] = []

    def play(body: Body, restarts: bool) -> None:
        service, publisher, administrator = clients[restarts]
        scratch = tmp_path_factory.mktemp(body.__name__)
        stage = Stage(scratch, service, publisher, administrator, Engines(scratch, service.host))
        stages.append(stage)
        try:
            body(stage)
        finally:
            stage.close()

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {test.body: pool.submit(play, test.body, test.restarts) for test in chosen}
        pool.shutdown(wait=False, cancel_futures=True)
        for stage in stages:
            stage.engines.close()


def with_other_payloads(columns: ReportColumns, source: ReportColumns) -> ReportColumns:
    """The same ids, each with a payload of ``source`` that is not its own: few bytes, so two may be equal."""
    others = [next(p for p in source.payloads if (p != own).any()) for own in columns.payloads]
    return ReportColumns(columns.digest, columns.epoch, columns.report_ids, np.array(others))


def next_epoch(agreed: Collection) -> int:
    """Wait until an epoch begins."""
    epoch = epoch_at(agreed, time.time()) + 1
    time.sleep(max(0.0, agreed.epochs.start(epoch) + 0.02 - time.time()))
    return epoch


# --- one engine


@side_by_side(restarts=False)
def test_windows_by_event_time(stage: Stage) -> None:
    """On time, late, too late, too early, junk and duplicates: every report is booked where it belongs."""
    channel, out = stage.channel(), stage.scratch / "out"
    files = [
        agree(stage.scratch / f"{protocol}.yaml", protocol, length=4, lateness=20, protocol=protocol)
        for protocol in ("olh", "grr")
    ]
    main, other = agreed = [load_collection(path) for path in files]
    engine = stage.engines.start(out, channel.subscription, *files).ready()
    epoch = next_epoch(main)
    key = (main.digest_hex, epoch)

    # In time, some twice, some ten times, one a thousand times, some under their ids with other payloads.
    columns = reports(main, epoch, 500)
    swapped = with_other_payloads(some(columns, 0, 30), columns)
    prompt = [
        *batches(main, some(columns, 0, 100), 50) * 2,
        *batches(main, some(columns, 100, 200), 25) * 10,
        *[single(main, columns, 200)] * 1000,
        *[single(main, columns, index) for index in range(201, 210)],
        batch(main, some(columns, 210, 400)),
        batch(main, swapped),
    ]
    beside = batch(other, reports(other, epoch_at(other, time.time()), 80))
    bad = _bad(main, columns)
    channel.publish(*prompt, beside, *chain.from_iterable(bad.values()), a="b")
    engine.until(lambda: panes(out, main, epoch))
    assert panes(out, main, epoch) == ["on_time"]
    expected = slowly(stage.scratch, agreed, prompt)[key]
    assert newest(out)[key] == expected
    assert expected[0] == 400

    # Late and counted, with copies of what has been counted.
    late = [*batches(main, some(columns, 400, 450), 25), batch(main, some(columns, 0, 60))]
    channel.publish(*late)
    expected = slowly(stage.scratch, agreed, prompt + late)[key]
    engine.until(lambda: newest(out)[key] == expected)

    # Too late: booked, and nothing else changes.
    engine.until(lambda: books(out)[key]["closed"])
    told, before = panes(out, main, epoch), tables(out)
    assert (told[0], set(told[1:])) == ("on_time", {"late"})
    channel.publish(batch(main, some(columns, 450, 500)), batch(main, some(columns, 0, 10)))
    engine.until(lambda: books(out)[key]["accounting"]["late"] == 60)
    assert engine.terminate() == 4
    assert tables(out) == before
    assert panes(out, main, epoch) == told

    record = stopped(out)
    assert newest(out) == slowly(stage.scratch, agreed, [*prompt, *late, beside])
    counted = {"counted": 450, "late": 60, "duplicate": 100 + 900 + 999 + 60}
    refused = {"conflicting_report_id": 30, "wrong_length": 1}
    read = sum(counted.values()) + sum(refused.values())
    assert books(out)[key]["accounting"] == {"read": read, **counted, "rejected": refused, "pending": 0}
    apart = {"malformed": 3, "unknown_collection": 8, "future_epoch": 8, "foreign_epoch": 1}
    assert unattributed(out) == apart
    assert record["accounting"]["total"]["rejected"] == {**apart, **refused}
    assert record["stream"]["unstamped"] == 0
    _require_kept(out, bad)


def _bad(agreed: Collection, columns: ReportColumns) -> dict[str, list[bytes]]:
    """Messages that are refused, by reason; 8 reports of no collection, 8 that are too early."""
    epoch, sound = columns.epoch, single(agreed, columns, 0)
    long = report_pb2.Report.FromString(sound)
    long.payload += b"x"
    strange = report_pb2.Report.FromString(sound)
    strange.digest ^= 1
    strangers = report_pb2.ReportBatch.FromString(batch(agreed, some(columns, 0, 7)))
    strangers.digest ^= 2
    foreign = report_pb2.Report.FromString(sound)
    foreign.epoch = 1 << 30
    return {
        "malformed": [b"\x03junk", b"", batch(agreed, columns)[:-3]],
        "wrong_length": [long.SerializeToString()],
        "unknown_collection": [strange.SerializeToString(), strangers.SerializeToString()],
        "future_epoch": [
            batch(agreed, reports(agreed, epoch + 5, 7)),
            single(agreed, reports(agreed, epoch + 6, 1), 0),
        ],
        "foreign_epoch": [foreign.SerializeToString()],
    }


def _require_kept(out: Path, bad: dict[str, list[bytes]]) -> None:
    """Every rejection points at its message, and every message has one."""
    messages = messages_refused(out)
    found = Counter((row["reason"], messages[row["source"], row["place"]]) for row in rejects(out))
    assert found == Counter((reason, message) for reason, sent in bad.items() for message in sent)


@pytest.mark.slow
@side_by_side(restarts=False)
def test_leases_that_run_out(stage: Stage) -> None:
    """An engine that stands still for longer than a lease: what it acknowledges too late comes again."""
    channel, out = stage.channel(), stage.scratch / "out"
    file = agree(stage.scratch / "one.yaml", "one", length=600, lateness=600)
    agreed = load_collection(file)
    engine = stage.engines.start(
        out, channel.subscription, file, land_every="4s", watermark_delay="10s"
    ).ready()
    sent = batches(agreed, reports(agreed, 0, 300), 10)
    channel.publish(*sent)
    # Drawn, and most likely not landed yet.
    time.sleep(1)
    engine.process.send_signal(signal.SIGSTOP)
    held = messages_landed(out)
    time.sleep(13)
    engine.process.send_signal(signal.SIGCONT)
    engine.until(lambda: messages_landed(out) >= 30)
    engine.until(lambda: held or messages_landed(out) > 30)
    assert engine.terminate() == 0
    total = stopped(out)["accounting"]["total"]
    assert newest(out) == slowly(stage.scratch, [agreed], sent)
    assert total["read"] - total["duplicate"] == total["counted"] == 300
    assert held or total["duplicate"] > 0


@pytest.mark.slow
@side_by_side(restarts=False)
def test_a_simulated_fleet_by_its_own_clock(stage: Stage) -> None:
    """By the attribute all is counted as over files; by publish time epochs long past take nothing."""
    channel, scratch = stage.channel(), stage.scratch
    second = stage.subscribed(channel.topic, f"{channel.subscription}second")
    origin = "{length: 6h, origin: 2026-01-01T00:00:00Z}"
    file = agree(scratch / "fleet.yaml", "fleet", length=1, lateness=3600, protocol="olh", epoch=origin)
    agreed = load_collection(file)
    fleet = ["--collection", file, "--population", "zipf:1.1", "--devices", 250, "--epochs", 3, "--seed", 8]
    fleet += ["--format", "report"]
    ldpbeam("simulate", *fleet, "--out", scratch / "files")
    ldpbeam(
        "run", "--collection", file, "--input", scratch / "files" / "reports", "--output", scratch / "run"
    )
    ldpbeam("simulate", *fleet, "--topic", channel.topic, host=stage.service.host)
    options: dict[str, Any] = {"stop_when_idle": "5s", "watermark_delay": None}
    own = stage.engines.start(
        scratch / "own", channel.subscription, file, **options, timestamp_attribute="received"
    )

    # Without a readable attribute the publish time stands in.
    own.until(lambda: messages_landed(own.output) >= 750)
    extra = batches(agreed, reports(agreed, 0, 15, seed=9), 5)
    for data, attributes in zip(extra, ({"received": "noon"}, {"received": ""}, {}), strict=True):
        channel.publish(data, **attributes)
    published = stage.engines.start(scratch / "published", second.subscription, file, **options)
    for engine, code in ((own, 0), (published, 5)):  # by the time of publication everything is late
        assert engine.process.wait(PATIENCE) == code, engine.log.read_text()

    record = stopped(own.output)
    assert newest(own.output) == newest(scratch / "run")
    assert [n for n, _ in newest(own.output).values()] == [250] * 3
    total = {"read": 765, "counted": 750, "late": 15, "duplicate": 0, "rejected": {}}
    assert record["accounting"]["total"] == total
    assert record["stream"]["unstamped"] == 3
    assert "read 765 = counted 750 + late 15 + duplicate 0 + rejected 0" in own.log.read_text()

    record = stopped(published.output)
    assert record["accounting"]["total"] == {**total, "counted": 0, "late": 765}
    assert record["stream"]["unstamped"] == 0
    assert [line["late"] for line in record["accounting"]["epochs"]] == [265, 250, 250]
    assert tables(published.output) == {}


@side_by_side(restarts=False)
def test_a_missing_subscription(stage: Stage) -> None:
    file = agree(stage.scratch / "one.yaml", "one", length=600, lateness=600)
    missing = "projects/ldp-test/subscriptions/nobody"
    engine = stage.engines.start(stage.scratch / "out", missing, file)
    assert engine.process.wait(PATIENCE) == 2
    said = engine.log.read_text().splitlines()
    assert said[-1].startswith(f"ldpbeam: {missing}: there is no such subscription")
    assert said[-1].endswith("[E-PUBSUB-MISSING]")
    assert len(said) == 3, "an introduction, what is read, and why not"


def _documented() -> list[str]:
    """Commands of docs/operations.md that read a subscription."""
    blocks = re.findall(r"```console\n(.*?)```", OPERATIONS.read_text(), re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("ldpbeam run") and "--subscription" in line]


@side_by_side(restarts=False)
def test_the_commands_of_the_documentation(stage: Stage) -> None:
    """They start, read, and stop when they are told to; what is said beside them works on what they leave."""
    commands = _documented()
    assert commands
    for number, command in enumerate(commands):
        home = stage.scratch / str(number)
        home.mkdir()
        (home / "examples").symlink_to(REPOSITORY / "examples")
        _, *arguments = shlex.split(command)
        at = arguments.index("--subscription") + 1
        _, project, _, name = arguments[at].split("/")
        # Several of them read the same subscription, which each must find empty.
        arguments[at] = f"projects/{project}-{number}/subscriptions/{name}"
        channel = stage.channel(f"{project}-{number}", name)
        agreed = load_collection(home / arguments[arguments.index("--collection") + 1])
        sent = [batch(agreed, reports(agreed, epoch_at(agreed, time.time()), 40))]
        channel.publish(*sent)
        output = home / arguments[arguments.index("--output") + 1]
        engine = stage.engines.execute(arguments, output, home)
        engine.until(partial(messages_landed, output))
        assert engine.terminate() == 0
        assert engine.log.read_text().splitlines()[-3:-1] == [
            "stopped",
            "read 40 = counted 40 + late 0 + duplicate 0 + rejected 0",
        ]
        stopped(output)
        assert newest(output) == slowly(stage.scratch, [agreed], sent)
        assert "counted 40" in ldpbeam("inspect", output / "run.json")
        ldpbeam("report", output)
        assert (output / "index.html").is_file()


# --- engines that stop, die and start again


@side_by_side(restarts=True)
def test_a_drained_stop(stage: Stage) -> None:
    """Open epochs are told as they are, the rest comes to the next engine, nobody else may work meanwhile."""
    channel, out = stage.channel(), stage.scratch / "out"
    short = agree(stage.scratch / "short.yaml", "short", length=8, lateness=6)
    long = agree(stage.scratch / "long.yaml", "long", length=600, lateness=600)
    agreed = brief, lasting = load_collection(short), load_collection(long)
    engine = stage.engines.start(out, channel.subscription, short, long).ready()
    feeder = stage.feed(channel, iter(batches(lasting, reports(lasting, 0, 20_000), 5)))
    channel.publish(b"\x03junk")
    engine.until(lambda: rejects(out))
    collections = [f"--collection={path}" for path in (short, long)]
    second = ["run", *collections, f"--subscription={channel.subscription}", f"--output={out}"]
    for command in (second, ["replay", out / "rejects", *collections]):
        # Refused before it asks for messages, so that it takes none from the first: here nobody would answer.
        said = ldpbeam(*command, code=6, host="127.0.0.1:9")
        assert "another run or replay works on this output" in said
        assert said.endswith("[E-STREAM-BUSY]\n")

    epoch = next_epoch(brief)
    key = (brief.digest_hex, epoch)
    sent = batches(brief, reports(brief, epoch, 120), 40)
    channel.publish(*sent)
    engine.until(lambda: len(ids_landed(out).get(key, ())) == 120)
    assert engine.terminate() == 4
    assert panes(out, brief, epoch) == panes(out, lasting, 0) == ["early"]
    expected = slowly(stage.scratch, agreed, sent)[key]
    assert newest(out)[key] == expected
    assert not books(out)[key]["closed"]
    stopped(out)
    # What is published while nobody is there waits.
    later = len(feeder.sent) + 20
    poll(lambda: len(feeder.sent) >= later)

    # Messages never cease, and are landed less often than they take to settle: results come all the same.
    engine = stage.engines.start(out, channel.subscription, short, long, land_every="2s")
    engine.until(lambda: books(out)[key]["closed"])
    assert panes(out, brief, epoch) == ["early", "on_time"]
    feeder.stop()
    wanted = slowly(stage.scratch, agreed, [*sent, *feeder.sent])
    _wait_for(engine, wanted, stage)
    assert engine.terminate(signal.SIGINT) == 4
    total = stopped(out)["accounting"]["total"]
    assert newest(out) == wanted
    assert total["rejected"].keys() == {"malformed"}
    assert total["late"] == 0


def _wait_for(engine: Engine, wanted: dict[Any, Any], stage: Stage) -> None:
    """Until so many different reports are on disk."""
    numbers = {key: n for key, (n, _) in wanted.items()}

    def there() -> bool:
        return {key: len(ids) for key, ids in ids_landed(engine.output).items()} == numbers

    engine.until(there)


MOMENTS = {
    "landing": "landing/engine.sqlite-journal",
    "telling": "estimates/*.tmp",
    "told": "estimates/*.parquet",
    "booked": "accounting/*.json",
}
"""What has just appeared when an engine is killed."""


@side_by_side(restarts=True)
def test_killed_again_and_again(stage: Stage) -> None:
    """Whenever it dies, the next engine goes on, and in the end everything has been counted once."""
    channel, out = stage.channel(), stage.scratch / "out"
    slow = agree(stage.scratch / "slow.yaml", "slow", length=600, lateness=600)
    quick = agree(stage.scratch / "quick.yaml", "quick", length=4, lateness=600, protocol="grr")
    agreed = [load_collection(slow), load_collection(quick)]

    def messages() -> Iterator[bytes]:
        left: dict[tuple[int, int], list[bytes]] = {}
        while True:
            for one in agreed:
                at = (one.digest, epoch_at(one, time.time()))
                if at not in left:
                    left[at] = batches(one, reports(one, at[1], 40_000), 2)
                yield left[at].pop()

    feeder = stage.feed(channel, messages())
    draw = random.Random(4)
    moments = [*["landed"] * 3, *MOMENTS, "later"] if stage.service.exact else ["landed"]
    for moment in moments:
        engine = stage.engines.start(out, channel.subscription, slow, quick)
        _await(engine, moment, draw)
        engine.kill()
    feeder.stop()

    engine = stage.engines.start(out, channel.subscription, slow, quick)
    wanted = slowly(stage.scratch, agreed, feeder.sent)
    assert len(wanted) > 3
    _wait_for(engine, wanted, stage)
    assert engine.terminate() == 0
    total = stopped(out)["accounting"]["total"]
    assert newest(out) == wanted
    assert total["read"] - total["duplicate"] == total["counted"] == sum(n for n, _ in wanted.values())
    assert total["duplicate"] > 0, "no engine was killed between landing and acknowledging"
    assert not list(out.rglob("*.tmp"))


def _await(engine: Engine, moment: str, draw: random.Random) -> None:
    """Until something new is there; looks without a pause, because it is acknowledged or renamed soon."""
    out, journal = engine.output, engine.output / MOMENTS["landing"]
    before, known = numbers_landed(out), set(out.glob(MOMENTS.get(moment, "*/nothing")))
    was_there = False

    def has_come() -> bool:
        nonlocal was_there
        if moment in MOMENTS:
            return bool(set(out.glob(MOMENTS[moment])) - known)
        if moment == "later":
            return numbers_landed(out) != before
        # The change is made when its journal goes; that is forced to disk before anybody hears of it.
        was_there, before_now = journal.exists(), was_there
        return before_now and not was_there

    end = time.monotonic() + PATIENCE
    while not has_come():
        assert time.monotonic() < end, f"no {moment}: {engine.log.read_text()}"
        time.sleep(0.0002)
    if moment == "later":
        time.sleep(draw.uniform(0, 2))


@pytest.mark.slow
@side_by_side(restarts=True)
def test_a_collection_is_retired(stage: Stage) -> None:
    """From one start to the next: no new epochs of the old one, another is known; replay makes it good."""
    channel, out, scratch = stage.channel(), stage.scratch / "out", stage.scratch
    files = [agree(scratch / f"{name}.yaml", name, length=5, lateness=600) for name in ("old", "new", "none")]
    agreed = [load_collection(path) for path in files]
    epoch = epoch_at(agreed[0], time.time())
    a, b, c = (
        [batch(one, some(reports(one, epoch, 200), at, at + 20)) for at in range(0, 200, 20)]
        for one in agreed
    )

    def run(messages: list[bytes], *collections: Path) -> dict[str, Any]:
        before = messages_landed(out)
        engine = stage.engines.start(out, channel.subscription, *collections).ready()
        channel.publish(*messages)
        engine.until(lambda: messages_landed(out) >= before + len(messages))
        assert engine.terminate() == 4
        return stopped(out)["accounting"]["total"]["rejected"]

    assert run([*a[:4], *b[:4], c[0]], files[0]) == {"unknown_collection": 100}
    assert newest(out) == slowly(scratch, agreed, a[:4])

    last = epoch_at(agreed[0], time.time())
    retired = retire(scratch / "retired.yaml", files[0], last + 1)
    beyond = batches(agreed[0], reports(agreed[0], last + 1, 60), 20)
    found = run([*a[4:6], *beyond, *b[4:6], c[1]], retired, files[1])
    assert found == {"unknown_collection": 120, "retired_collection": 60}
    assert newest(out) == slowly(scratch, agreed, [*a[:6], *b[4:6]])

    given = [f"--collection={path}" for path in files]
    said = ldpbeam("replay", out / "rejects", *given[:2], code=4)
    assert "rejected before 180, now 40" in said
    assert stopped(out)["accounting"]["total"]["rejected"] == {"unknown_collection": 40}
    sent = [*a[:6], *b[:6], *beyond]
    assert newest(out) == slowly(scratch, agreed, sent)

    # The engine goes on after a replay; in the end nothing is missing.
    assert run([a[6], b[0], c[2]], *files[:2]) == {"unknown_collection": 60}
    assert newest(out) == slowly(scratch, agreed, [*sent, a[6]])
    ldpbeam("replay", out / "rejects", *given)
    assert newest(out) == slowly(scratch, agreed, [*sent, a[6], *c[:3]])
    assert stopped(out)["accounting"]["total"] == {
        "read": 400,
        "counted": 380,
        "late": 0,
        "duplicate": 20,
        "rejected": {},
    }


@side_by_side(restarts=False)
def test_the_first_five_minutes(stage: Stage) -> None:
    """The commands at the top of operations.md, without the first two, which start the emulator."""
    if stage.service.exact:
        pytest.skip("Google's fake does not speak HTTP")
    text = OPERATIONS.read_text()
    block = re.findall(r"```console\n(.*?)```", text, re.DOTALL)[0]
    lines = block.replace("my-project", "five-minutes").splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("gcloud beta emulators pubsub start")
    assert lines[1] == "export PUBSUB_EMULATOR_HOST=127.0.0.1:8085"
    (stage.scratch / "examples").symlink_to(REPOSITORY / "examples")
    done = subprocess.run(
        ["bash", "-ec", "\n".join(lines[2:])],
        cwd=stage.scratch,
        env={
            **ENVIRONMENT,
            "PUBSUB_EMULATOR_HOST": stage.service.host,
            "PATH": f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout
    assert "read 6,000 = counted 6,000 + late 0 + duplicate 0 + rejected 0" in done.stdout
    assert len(tables(stage.scratch / "live")) == 3
