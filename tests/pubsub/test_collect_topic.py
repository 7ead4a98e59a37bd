"""``ldpbeam collect --topic``: what was answered is in the topic with its arrival, what was not is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ldpbeam.collector.topic import RECEIVED, TopicStore
from ldpbeam.engine.sources.subscriber import Subscriber
from ldpbeam.wire import report_pb2
from tests.ldpbeam.collector.serving import ONE, batch, report, serving
from tests.pubsub.conftest import Channel, pull_all

pytestmark = pytest.mark.pubsub

AT = 3600.0 * 7 + 12.75
"""When the collector believes that everything arrives, seconds since 1970."""


def test_every_answered_report_is_in_the_topic_with_its_arrival(
    channel: Channel, subscribe: Callable[..., Subscriber]
) -> None:
    store = TopicStore(channel.topic, wall=lambda: AT)
    with serving(store) as served, ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(served.post, [report(name, epoch=7) for name in range(60)]))
        answers.append(served.post(batch(range(100, 180), epoch=7)))
        answers.append(served.post(report(59, epoch=7)))  # sent again
        refused = served.post(report(1000, epoch=7, payload=b"\1\1"))
        written = int(served.metric("commits_total"))
    assert {answer.status // 100 for answer in answers} == {2}
    assert refused.status == 400

    messages = pull_all(subscribe(channel.subscription, RECEIVED), written)
    held = [report_pb2.ReportBatch.FromString(message.data) for message in messages]
    ids = Counter(name for many in held for name in many.report_ids)
    assert ids == Counter([*range(60), *range(100, 180), 59])
    assert {(many.digest, many.epoch) for many in held} == {(ONE.digest, 7)}
    # Whole seconds, so that a batch and its message say the same.
    assert {(message.stamped, message.arrival_micros) for message in messages} == {(True, int(AT) * 10**6)}


def test_a_topic_that_is_not_there_is_no_answer_of_success(channel: Channel) -> None:
    with serving(TopicStore(channel.topic + "-missing")) as served:
        answer = served.post(report(1))
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert served.ask("GET", "/readyz").status == 503
