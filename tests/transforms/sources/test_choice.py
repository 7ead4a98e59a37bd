"""Which source the options choose, and what each must be given with."""

from __future__ import annotations

import pytest

from ldpbeam.errors import UsageError
from ldpbeam.transforms.sources import SOURCES, chosen_source

KAFKA = {"kafka_topic": "reports", "kafka_servers": "broker:9092", "kafka_expansion": "localhost:8097"}
PUBSUB = {"subscription": "projects/p/subscriptions/s"}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, None),
        ({"subscription": "", "kafka_topic": "", "timestamp_attribute": "received"}, None),
        (PUBSUB, "subscription"),
        ({**PUBSUB, "pubsub_expansion": "localhost:8097", "kafka_servers": ""}, "subscription"),
        (KAFKA, "kafka_topic"),
    ],
)
def test_the_option_of_a_target_chooses_the_source(given: dict[str, str], name: str | None) -> None:
    assert chosen_source(given) is (SOURCES[name] if name else None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kafka_topic": "reports"}, "--kafka-topic needs --kafka-servers"),
        ({**KAFKA, "kafka_expansion": ""}, "--kafka-topic needs --kafka-expansion"),
        ({"kafka_servers": "broker:9092"}, "--kafka-servers goes with --kafka-topic"),
        ({"pubsub_expansion": "localhost:8097"}, "--pubsub-expansion goes with --subscription"),
        ({**KAFKA, **PUBSUB}, "--subscription and --kafka-topic were given"),
    ],
)
def test_half_a_source_and_two_of_them_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        chosen_source(given)
    assert caught.value.code == "E-USAGE-OPTION"
    assert "--kafka-topic TOPIC" in caught.value.remedy or "subscription" in said
