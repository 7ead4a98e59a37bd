"""The engine against Pub/Sub, by its command line: windows, books, restarts, what the documentation says.

Tests that stop and start engines use Google's fake where Go is there to build it: the emulator goes on to
deliver to engines that are gone (tests/pubsub/emulator.py).
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
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
    newest,
    numbers_landed,
    panes,
    rejects,
    reports,
    single,
    slowly,
    some,
    stopped,
    tables,
)
from tests.waiting import PATIENCE, poll

pytestmark = [pytest.mark.pubsub, pytest.mark.timeout(2 * PATIENCE)]

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
        subscription = f"projects/{project}/subscriptions/{name}"
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


@pytest.fixture(scope="module")
def exact(service: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Google's fake where Go is there to build it."""
    if service.exact or not shutil.which("go") or os.environ.get("LDPBEAM_PUBSUB_EMULATOR"):
        yield service
    else:
        with emulator(tmp_path_factory.mktemp("exact"), "pstest") as found:
            yield found


@contextmanager
def staged(service: Emulator, scratch: Path) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", service.host)
        publisher: Any = pubsub_v1.PublisherClient()
        administrator = pubsub_v1.SubscriberClient()
    stage = Stage(scratch, service, publisher, administrator, Engines(scratch, service.host))
    with administrator:
        try:
            yield stage
        finally:
            stage.close()
            publisher.stop()
            publisher.transport.close()


@pytest.fixture
def stage(service: Emulator, tmp_path: Path) -> Iterator[Stage]:
    with staged(service, tmp_path) as found:
        yield found


@pytest.fixture
def exact_stage(exact: Emulator, tmp_path: Path) -> Iterator[Stage]:
    with staged(exact, tmp_path) as found:
        yield found


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


def test_windows_by_event_time(stage: Stage) -> None:
    """On time, late, too late, and duplicates: every report is booked where it belongs."""
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
    channel.publish(*prompt, beside, a="b")
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
    refused = {"conflicting_report_id": 30}
    read = sum(counted.values()) + sum(refused.values())
    assert books(out)[key]["accounting"] == {"read": read, **counted, "rejected": refused, "pending": 0}
    assert record["accounting"]["total"]["rejected"] == refused
    assert record["stream"]["unstamped"] == 0


def _documented() -> list[str]:
    """Commands of docs/operations.md that read a subscription."""
    blocks = re.findall(r"```console\n(.*?)```", OPERATIONS.read_text(), re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("ldpbeam run") and "--subscription" in line]


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


def test_a_drained_stop(exact_stage: Stage) -> None:
    """Open epochs are told as they are, the rest comes to the next engine, nobody else may work meanwhile."""
    stage = exact_stage
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


def test_killed_again_and_again(exact_stage: Stage) -> None:
    """Whenever it dies, the next engine goes on, and in the end everything has been counted once."""
    stage = exact_stage
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
