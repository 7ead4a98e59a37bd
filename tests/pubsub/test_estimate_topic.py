"""Published revisions on a real broker: in order, split where they must be, with the id to know them by."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import Any

import grpc
import pytest
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from google.pubsub_v1 import SubscriberClient

import ldpbeam.transforms.sinks.topic
from ldpbeam.histogram import EpochHistogram, estimate_epoch
from ldpbeam.support import Support
from ldpbeam.tables import epoch_table, fixed_columns
from ldpbeam.transforms.sinks.topic import PublishEstimates
from tests.pipelines.running import collection
from tests.pubsub.conftest import Channel
from tests.pubsub.emulator import Emulator
from tests.waiting import PATIENCE

pytestmark = pytest.mark.pubsub

SIZE = 140_000
AGREED = collection("grr", size=SIZE, name="many", consistency="none", min_reports=100)


def revision(number: int) -> EpochHistogram:
    """A result too large for one message; without estimates, which take longer than the test."""
    support = Support.zero(AGREED.protocol.counter.counts_length)
    support.counts[number] = support.reports = 10 + number
    return replace(estimate_epoch(AGREED, 2, support), revision=number, pane="late", closed=False)


@pytest.fixture
def reader(service: Emulator) -> Iterator[Any]:
    """A subscriber that takes answers of any size; for an emulator the library makes one that does not."""
    with grpc.insecure_channel(service.host, options=[("grpc.max_receive_message_length", -1)]) as channel:
        transport = SubscriberClient.get_transport_class("grpc")(channel=channel)
        yield SubscriberClient(transport=transport)


def pull_all(reader: Any, subscription: str, count: int) -> list[Any]:
    """So many messages, in the order in which they came."""
    found: list[Any] = []
    end = monotonic() + PATIENCE
    while len(found) < count:
        assert monotonic() < end, f"{len(found)} of {count} messages"
        answer = reader.pull(subscription=subscription, max_messages=10, timeout=PATIENCE)
        if answer.received_messages:
            reader.acknowledge(
                subscription=subscription, ack_ids=[m.ack_id for m in answer.received_messages]
            )
        found += [m.message for m in answer.received_messages]
    return found


def test_revisions_arrive_in_order_with_every_row(
    make_channel: Callable[..., Channel],
    reader: Any,
    service: Emulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if service.exact:  # Google's fake takes no message beyond gRPC's 4 MB
        monkeypatch.setattr(ldpbeam.transforms.sinks.topic, "MESSAGE_BYTES", 3_900_000)
    channel = make_channel(enable_message_ordering=True)
    sink = PublishEstimates(AGREED, channel.topic)
    sink.setup()
    sink.start_bundle()
    for number in range(2):
        assert list(sink.process(revision(number), Timestamp(0), GlobalWindow())) == []
    assert len(list(sink.finish_bundle())) == 2
    sink.teardown()

    (first, *_) = messages = pull_all(reader, channel.subscription, 2)
    parts = int(first.attributes["parts"])
    assert parts == (3 if service.exact else 2)
    messages += pull_all(reader, channel.subscription, 2 * parts - len(messages))
    place = f"{AGREED.digest_hex}/2"
    assert [m.attributes["id"] for m in messages] == [
        f"{place}/{number}/{part + 1}" for number in range(2) for part in range(parts)
    ]
    assert {m.ordering_key for m in messages} == {place}
    assert {(m.attributes["pane"], m.attributes["closed"]) for m in messages} == {("late", "false")}
    for number in range(2):
        columns = [json.loads(m.data)["columns"] for m in messages[number * parts : (number + 1) * parts]]
        table = epoch_table(AGREED, revision(number), fixed_columns(AGREED))
        for name in columns[0]:
            assert [v for part in columns for v in part[name]] == table.column(name).to_pylist()
