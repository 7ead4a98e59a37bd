"""Values of Kafka topics with the time of their records, through Beam's Java connector."""

import typing
from collections.abc import Mapping, Sequence

import apache_beam as beam
from apache_beam.transforms.external import ExternalTransform, NamedTupleBasedPayloadBuilder

from ..composite import composite

BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
URN = "beam:transform:org.apache.beam:kafka_read_without_metadata:v1"


class _Configuration(typing.NamedTuple):
    """Fields of the Java side's configuration."""

    consumer_config: typing.Mapping[str, str]
    topics: list[str]
    key_deserializer: str
    value_deserializer: str
    commit_offset_in_finalize: bool
    timestamp_policy: str


@composite
def read_kafka(
    pipeline: beam.Pipeline,
    servers: str,
    topics: Sequence[str],
    expansion_service: str,
    settings: Mapping[str, str] | None = None,
) -> beam.PCollection[bytes]:
    """Each record's value as bytes, in event time."""
    configuration = _Configuration(
        consumer_config={"bootstrap.servers": servers, "auto.offset.reset": "earliest", **(settings or {})},
        topics=list(topics),
        key_deserializer=BYTES,
        value_deserializer=BYTES,
        commit_offset_in_finalize=False,
        timestamp_policy="CreateTime",
    )
    payload = NamedTupleBasedPayloadBuilder(configuration)
    return (
        pipeline
        | "Kafka" >> ExternalTransform(URN, payload, expansion_service)
        | "Value" >> beam.Map(_value).with_output_types(bytes)
    )


def read(given: Mapping[str, str], runner: str, *, portable: bool) -> beam.PTransform:
    return read_kafka(given["kafka_servers"], [given["kafka_topic"]], given["kafka_expansion"])


def _value(record: tuple[bytes | None, bytes | None]) -> bytes:
    """A record without a value (a tombstone) becomes an empty one, which admission rejects."""
    return record[1] or b""
