"""The topic as a store: safe is what the broker has confirmed. tests/pubsub has an emulator's word for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.collector import topic as topics
from ldpbeam.collector.topic import RECEIVED, TopicStore
from ldpbeam.errors import LdpError
from ldpbeam.wire import report_pb2
from tests.ldpbeam.collector.serving import ONE
from tests.transforms.sinks.fake_topic import FakeTopic, fake_topic

TOPIC = "projects/my-project/topics/reports"
AT = 3600.0 * 7 + 12.75


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTopic]:
    with fake_topic(TOPIC) as fake:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", fake.host)
        monkeypatch.setattr(topics, "_SECONDS", 1.0)
        yield fake


@pytest.fixture
def store(topic: FakeTopic) -> Iterator[TopicStore]:
    made = TopicStore(TOPIC, wall=lambda: AT)
    made.open()
    yield made
    made.close()


def columns(ids: range) -> list[ReportColumns]:
    payloads = np.zeros((len(ids), 1), np.uint8)
    return [ReportColumns(ONE.digest, 7, np.array(ids, np.uint64), payloads)]


def test_what_is_committed_is_in_the_topic_with_its_arrival(topic: FakeTopic, store: TopicStore) -> None:
    store.commit(columns(range(5)) + columns(range(5, 8)))
    held = [report_pb2.ReportBatch.FromString(message.data) for message in topic.messages]
    assert sorted(name for many in held for name in many.report_ids) == list(range(8))
    assert {message.attributes[RECEIVED] for message in topic.messages} == {f"{int(AT) * 1000}"}


def test_what_the_broker_does_not_confirm_is_not_safe(topic: FakeTopic, store: TopicStore) -> None:
    topic.down = grpc.StatusCode.NOT_FOUND
    with pytest.raises(LdpError, match=r"there is no such topic.*E-PUBSUB-MISSING"):
        store.commit(columns(range(5)))
    assert topic.messages == []
    topic.down = None
    store.commit(columns(range(5)))
    # The library may have sent the first one again in the background: reports that come twice count once.
    held = [report_pb2.ReportBatch.FromString(message.data) for message in topic.messages]
    assert {name for many in held for name in many.report_ids} == set(range(5))
    assert len(held) <= 2


def test_without_credentials_it_does_not_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says so before it takes a report."""
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    store = TopicStore(TOPIC)
    with pytest.raises(LdpError, match="no valid credentials") as caught:
        store.open()
    assert caught.value.code == "E-USAGE-CREDENTIALS"
    store.close()
