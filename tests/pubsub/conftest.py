"""Pub/Sub for the tests of this folder: one emulator for all, a topic and a subscription for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from google.cloud import pubsub_v1

from ldpbeam.engine.sources.subscriber import Message, Subscriber
from tests.pubsub.emulator import Emulator, emulator
from tests.waiting import PATIENCE

LEASE = 10
"""The shortest there is, so that tests wait no longer than they must."""


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with emulator(tmp_path_factory.mktemp("pubsub")) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", running.host)
        yield running


@pytest.fixture(scope="session")
def publisher(service: Emulator) -> Iterator[Any]:
    client = pubsub_v1.PublisherClient()
    yield client
    client.stop()
    client.transport.close()


@pytest.fixture(scope="session")
def administrator(service: Emulator) -> Iterator[Any]:
    with pubsub_v1.SubscriberClient() as client:
        yield client


@dataclass(frozen=True)
class Channel:
    """A topic with one subscription."""

    topic: str
    subscription: str
    publisher: Any

    def publish(self, *data: bytes, **attributes: str) -> list[str]:
        """Publish, wait for confirmation, and give the message ids."""
        futures = [self.publisher.publish(self.topic, content, **attributes) for content in data]
        return [future.result(timeout=PATIENCE) for future in futures]


@pytest.fixture
def make_channel(publisher: Any, administrator: Any) -> Iterator[Callable[..., Channel]]:
    made = []

    def make(**options: Any) -> Channel:
        name = f"t{uuid4().hex}"
        channel = Channel(
            f"projects/ldp-test/topics/{name}", f"projects/ldp-test/subscriptions/{name}", publisher
        )
        publisher.create_topic(name=channel.topic)
        administrator.create_subscription(
            request={"name": channel.subscription, "topic": channel.topic, **options}
        )
        made.append(channel)
        return channel

    yield make
    for channel in made:
        administrator.delete_subscription(subscription=channel.subscription)
        publisher.delete_topic(topic=channel.topic)


@pytest.fixture
def channel(make_channel: Callable[..., Channel]) -> Channel:
    return make_channel()


@pytest.fixture
def subscribe() -> Iterator[Callable[..., Subscriber]]:
    """Subscribers that are closed at the end, whatever happens."""
    opened = []

    def open_(subscription: str, *arguments: Any, **options: Any) -> Subscriber:
        subscriber = Subscriber(subscription, *arguments, **{"lease_seconds": LEASE, **options})
        opened.append(subscriber)
        return subscriber

    yield open_
    for subscriber in opened:
        subscriber.close()


def pull_all(subscriber: Subscriber, count: int, seconds: float = PATIENCE) -> list[Message]:
    """Pull and acknowledge until so many different messages have come."""
    from time import monotonic

    found: dict[str, Message] = {}
    end = monotonic() + seconds
    while len(found) < count:
        assert monotonic() < end, f"{len(found)} of {count} messages after {seconds} s"
        messages = subscriber.pull(1000, 1 << 24, 1.0)
        subscriber.acknowledge(messages)
        found.update((message.message_id, message) for message in messages)
    return list(found.values())
