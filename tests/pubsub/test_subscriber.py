"""The subscriber against a service: nothing is lost, nothing is held without bound, failures are told."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.cloud import pubsub_v1

from ldpbeam.engine.sources.subscriber import Subscriber
from ldpbeam.errors import LdpError, UsageError
from tests.pubsub.conftest import LEASE, Channel, pull_all
from tests.pubsub.emulator import Emulator, emulator
from tests.waiting import PATIENCE, poll, slowness

pytestmark = pytest.mark.pubsub

Subscribe = Callable[..., Subscriber]


def test_what_is_published_is_pulled_and_once_acknowledged_does_not_come_again(
    channel: Channel, subscribe: Subscribe
) -> None:
    sent = [b"%d" % i for i in range(250)]
    ids = channel.publish(*sent)
    first = subscribe(channel.subscription)
    messages = pull_all(first, len(sent))
    assert {m.message_id: m.data for m in messages} == dict(zip(ids, sent, strict=True))
    assert all(m.stamped and abs(m.arrival_micros / 1e6 - time.time()) < 60 for m in messages)
    assert first.pull(10, 1000, 0.2) == []
    first.close()
    assert subscribe(channel.subscription).pull(10, 1000, LEASE + 2) == []


def test_what_was_not_acknowledged_comes_again_after_close(channel: Channel, subscribe: Subscribe) -> None:
    """Whether it was pulled or still queued; and what was acknowledged just before stays away."""
    channel.publish(b"kept", b"pulled", b"queued")
    first = subscribe(channel.subscription)
    held: dict[bytes, Any] = {}
    while len(held) < 2:
        message = first.pull(1, 1000, PATIENCE)[0]
        held[message.data] = message
    done = held.popitem()[1]
    first.acknowledge([done])
    first.close()
    first.close()
    with pytest.raises(LdpError):
        first.pull(1, 1000, 1)
    with pytest.raises(LdpError):
        first.acknowledge([done])
    again = pull_all(subscribe(channel.subscription), 2)
    assert {m.data for m in again} == {b"kept", b"pulled", b"queued"} - {done.data}


def test_the_limits_of_a_pull_hold(channel: Channel, subscribe: Subscribe) -> None:
    channel.publish(*[b"x" * 1000] * 10)
    subscriber = subscribe(channel.subscription)
    poll(lambda: len(subscriber._queue) == 10)
    assert len(subscriber.pull(3, 1 << 20, PATIENCE)) == 3
    assert len(subscriber.pull(10, 2500, PATIENCE)) == 2
    assert len(subscriber.pull(10, 1, PATIENCE)) == 1
    assert len(subscriber.pull(10, 1 << 20, PATIENCE)) == 4


def test_a_message_ends_the_wait_of_an_idle_pull(channel: Channel, subscribe: Subscribe) -> None:
    subscriber = subscribe(channel.subscription)
    start = time.monotonic()
    assert subscriber.pull(10, 1000, 1.5) == []
    assert 1.4 < time.monotonic() - start < 3 * slowness()
    channel.publish(b"x")
    start = time.monotonic()
    assert [m.data for m in subscriber.pull(10, 1000, PATIENCE)] == [b"x"]
    assert time.monotonic() - start < 5 * slowness()


def test_no_more_is_held_than_the_bounds_say(channel: Channel, subscribe: Subscribe) -> None:
    """Neither queued nor pulled; and all comes in the end, when what was pulled is acknowledged."""
    count, size = 400, 10_000
    channel.publish(*[bytes(size)] * count)
    bounds = {"max_messages": 60, "max_bytes": 300_000}
    subscriber = subscribe(channel.subscription, **bounds)
    poll(lambda: len(subscriber._queue) >= 20)
    time.sleep(1)
    assert len(subscriber._queue) <= 30
    assert subscriber._queued_bytes <= 300_000
    held = []
    while got := subscriber.pull(7, 1 << 20, 2):
        held += got
        assert len(subscriber._queue) <= 30
    assert len(held) <= 31, "what was pulled and not acknowledged counts"
    subscriber.acknowledge(held)
    rest = pull_all(subscriber, count - len({m.message_id for m in held}))
    assert len({m.message_id for m in held + rest}) == count
    few = subscribe(channel.subscription, max_messages=5)
    channel.publish(*[b"x"] * 100)
    time.sleep(2)
    assert len(few._queue) <= 5


def test_exactly_once_delivery(make_channel: Callable[..., Channel], subscribe: Subscribe) -> None:
    """Acknowledgements are confirmed by the service; one that comes too late is no failure."""
    channel = make_channel(enable_exactly_once_delivery=True)
    channel.publish(*[b"%d" % i for i in range(20)])
    subscriber = subscribe(channel.subscription)
    messages = pull_all(subscriber, 20)
    subscriber.acknowledge(messages)
    assert subscriber.pull(1, 1000, 1) == []


def test_a_missing_subscription_is_told_in_one_line(
    channel: Channel, subscribe: Subscribe, caplog: pytest.LogCaptureFixture
) -> None:
    subscriber = subscribe(f"{channel.subscription}x")
    start = time.monotonic()
    with pytest.raises(UsageError, match="no such subscription") as caught:
        subscriber.pull(1, 1000, PATIENCE)
    assert time.monotonic() - start < 20 * slowness()
    assert (caught.value.code, caught.value.exit_code) == ("E-PUBSUB-MISSING", 2)
    assert "\n" not in str(caught.value)
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
    start = time.monotonic()
    subscriber.close()
    assert time.monotonic() - start < 5 * slowness()


def test_a_subscription_that_is_deleted_ends_the_pull(
    channel: Channel, subscribe: Subscribe, administrator: Any, service: Emulator
) -> None:
    if service.exact:
        pytest.skip("Google's fake keeps the streams of a deleted subscription open; the emulator ends them")
    subscriber = subscribe(channel.subscription)
    channel.publish(b"x")
    assert subscriber.pull(1, 1000, PATIENCE)
    administrator.delete_subscription(subscription=channel.subscription)
    with pytest.raises(LdpError) as caught:
        subscriber.pull(1, 1000, PATIENCE)
    assert caught.value.code == "E-PUBSUB-MISSING"
    # For the fixture, which deletes it as well.
    administrator.create_subscription(request={"name": channel.subscription, "topic": channel.topic})


def test_a_service_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:9")  # the port called discard
    start = time.monotonic()
    with pytest.raises(UsageError, match="does not answer") as caught:
        Subscriber("projects/ldp-test/subscriptions/any")
    assert caught.value.code == "E-PUBSUB-UNREACHABLE"
    assert time.monotonic() - start < 30 * slowness()


def test_a_broken_connection_is_told_from_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both give nothing; only one of them says that there is nothing."""
    with emulator(tmp_path) as own:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", own.host)
        publisher = pubsub_v1.PublisherClient()
        topic, name = "projects/ldp-test/topics/broken", "projects/ldp-test/subscriptions/broken"
        publisher.create_topic(name=topic)
        with pubsub_v1.SubscriberClient() as administrator:
            administrator.create_subscription(request={"name": name, "topic": topic})
        publisher.transport.close()
        subscriber = Subscriber(name)
        assert subscriber.pull(1, 1000, 0.5) == []
        assert subscriber.connected()
    try:
        assert not subscriber.connected()
        assert subscriber.pull(1, 1000, 0.5) == [], "the library connects again for as long as it takes"
    finally:
        subscriber.close()
