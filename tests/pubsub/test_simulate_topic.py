"""``ldpbeam simulate --topic``, as a user calls it, publishes what ``--out`` writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ldpbeam
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection
from ldpbeam.durable.document import parse_document
from ldpbeam.engine.sources.subscriber import Message, Subscriber
from ldpbeam.wire import codec, report_pb2
from tests.conftest import REPOSITORY
from tests.pubsub.conftest import Channel, pull_all
from tests.waiting import PATIENCE

pytestmark = pytest.mark.pubsub

COLLECTION = REPOSITORY / "examples" / "minutes_in_app.yaml"
EPOCHS = 2
DEVICES = {"batch": 9000, "report": 300}
MESSAGES = {"batch": 2 * 3, "report": 2 * 300}

Subscribe = Callable[..., Subscriber]


@pytest.fixture(scope="module")
def agreed() -> Collection:
    return load_collection(COLLECTION)


def simulate(devices: int, *arguments: object, code: int = 0, collection: Path = COLLECTION) -> str:
    """Run the command; returns what it printed on both streams."""
    given = ["--collection", collection, "--population", "zipf:1.1", "--devices", devices, "--epochs", EPOCHS]
    command = [
        sys.executable,
        "-m",
        "ldpbeam.cli.main",
        "simulate",
        *given,
        "--seed",
        3,
        *arguments,
    ]
    done = subprocess.run(
        list(map(str, command)), cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def in_order(messages: list[Message]) -> list[Message]:
    assert all(message.stamped for message in messages)
    return sorted(messages, key=lambda message: (message.arrival_micros, message.data))


@pytest.mark.parametrize("kind", ["batch", "report"])
def test_the_topic_gets_the_reports_that_files_hold(
    kind: str, channel: Channel, subscribe: Subscribe, tmp_path: Path, agreed: Collection
) -> None:
    files, out, devices = tmp_path / "files", tmp_path / "out", DEVICES[kind]
    simulate(devices, "--out", files, "--format", kind, "--truth")
    printed = simulate(devices, "--topic", channel.topic, "--out", out, "--format", kind, "--truth")
    line = (
        f"{2 * devices:,} reports of {devices:,} devices in {MESSAGES[kind]:,} messages to {channel.topic}\n"
    )
    assert line in printed
    assert "ldpbeam run --subscription … --timestamp-attribute received" in printed

    messages = pull_all(subscribe(channel.subscription, "received"), MESSAGES[kind], 120)
    for epoch in range(EPOCHS):
        start, end = agreed.epochs.start(epoch) * 10**6, agreed.epochs.end(epoch) * 10**6
        mine = in_order([m for m in messages if start <= m.arrival_micros < end])
        assert len(mine) == MESSAGES[kind] // EPOCHS
        written = (files / "reports" / f"epoch-{epoch:06d}.pb").read_bytes()
        if kind == "report":
            # Two reports of one millisecond may have changed places.
            assert sorted(codec.framed(m.data) for m in mine) == sorted(records(written))
        else:
            sent = [report_pb2.ReportBatch.FromString(m.data) for m in mine]
            assert [batch.count for batch in sent] == [4096, 4096, 808]
            whole = report_pb2.ReportBatch(digest=agreed.digest, epoch=epoch, count=devices)
            whole.report_ids.extend(i for batch in sent for i in batch.report_ids)
            whole.payloads = b"".join(batch.payloads for batch in sent)
            assert codec.framed(whole.SerializeToString()) == written

    assert sorted(p.name for p in out.iterdir()) == ["simulation.json", "truth.parquet"]
    assert (out / "truth.parquet").read_bytes() == (files / "truth.parquet").read_bytes()
    record, plain = (parse_document((path / "simulation.json").read_text()) for path in (out, files))
    assert record == {**plain, "topic": channel.topic, "messages": MESSAGES[kind]}


@pytest.mark.parametrize("kind", ["batch", "report"])
def test_reports_of_a_slice_are_messages_of_their_own(
    kind: str, channel: Channel, subscribe: Subscribe, tmp_path: Path
) -> None:
    sliced = tmp_path / "c.yaml"
    sliced.write_text(COLLECTION.read_text("utf-8") + "slices: {arm: [a, b]}\n", "utf-8")
    agreed, devices = load_collection(sliced), DEVICES[kind]
    simulate(devices, "--out", tmp_path / "f", "--format", kind, collection=sliced)
    simulate(devices, "--topic", channel.topic, "--format", kind, collection=sliced)
    # Groups of 4,096 reports have a message for each of two slices.
    count = 2 * MESSAGES[kind] if kind == "batch" else MESSAGES[kind]
    messages = [m.data for m in pull_all(subscribe(channel.subscription, "received"), count, 120)]
    files = [records(path.read_bytes()) for path in (tmp_path / "f" / "reports").iterdir()]
    written = [content for file in files for content in file]
    found = [
        sorted((r, row.tobytes()) for one in ldpbeam.admit(agreed, some).admitted
               for r, row in zip(one.report_ids.tolist(), one.payloads, strict=True))
        for some in (messages, [unframed(content) for content in written])
    ]  # fmt: skip
    assert len(found[0]) == EPOCHS * devices
    assert found[0] == found[1]


def unframed(content: bytes) -> bytes:
    found = codec.frames(np.frombuffer(content, np.uint8))
    return content[int(found.offsets[0]) :]


def records(content: bytes) -> list[bytes]:
    """The records of a file, each with its length."""
    found = codec.frames(np.frombuffer(content, np.uint8))
    pairs = zip(found.offsets.tolist(), found.lengths.tolist(), strict=True)
    return [codec.framed(content[at : at + length]) for at, length in pairs]


def test_a_missing_topic_ends_with_2_and_one_line(channel: Channel) -> None:
    printed = simulate(5, "--topic", f"{channel.topic}x", code=2)
    assert printed.count("\n") == 1
    assert printed.endswith("[E-PUBSUB-MISSING]\n")
