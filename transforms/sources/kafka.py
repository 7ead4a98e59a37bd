"""Values of Kafka topics with the time of their records, through Beam's Java connector."""

import typing
from collections.abc import Mapping, Sequence

import apache_beam as beam
from apache_beam.transforms.external import ExternalTransform, NamedTupleBasedPayloadBuilder

__all__ = ["ReadKafka", "read"]

BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
URN = "beam:transform:org.apache.beam:kafka_read_without_metadata:v1"


class _Configuration(typing.NamedTuple):
    """Fields of the Java side's configuration.

    Beam's own ReadFromKafka sends every field its release knows, and an expansion service of an earlier
    release refuses one that it does not know. These are in every release since 2.60.
    """

    consumer_config: typing.Mapping[str, str]
    topics: list[str]
    key_deserializer: str
    value_deserializer: str
    commit_offset_in_finalize: bool
    timestamp_policy: str


class ReadKafka(beam.PTransform):
    """Each record's value as bytes, in event time.

    The timestamp is the one that the producer gave the record (CreateTime), and the watermark follows the
    slowest partition; once nothing is left to read it leaps to the wall clock. Where reading stands is in
    the job's checkpoints, not in Kafka: a job that recovers goes on from its checkpoint, whatever
    the consumer group has committed.
    """

    def __init__(
        self,
        servers: str,
        topics: Sequence[str],
        expansion_service: str,
        settings: Mapping[str, str] | None = None,
        label: str | None = None,
    ) -> None:
        """`expansion_service` is host:port; `settings` are the consumer's, over what is set here."""
        super().__init__(label)
        self._settings = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", **(settings or {})}
        self._topics = list(topics)
        self._service = expansion_service

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[bytes]:
        """The external read, and its values."""
        configuration = _Configuration(
            consumer_config=self._settings,
            topics=self._topics,
            key_deserializer=BYTES,
            value_deserializer=BYTES,
            commit_offset_in_finalize=False,
            timestamp_policy="CreateTime",
        )
        payload = NamedTupleBasedPayloadBuilder(configuration)
        return (
            pipeline
            | "Kafka" >> ExternalTransform(URN, payload, self._service)
            | "Value" >> beam.Map(_value).with_output_types(bytes)
        )


def read(given: Mapping[str, str], runner: str, *, portable: bool) -> ReadKafka:
    """The source that is asked for, see :data:`ldpbeam.transforms.sources.SOURCES`."""
    return ReadKafka(given["kafka_servers"], [given["kafka_topic"]], given["kafka_expansion"])


def _value(record: tuple[bytes | None, bytes | None]) -> bytes:
    """A record without a value (a tombstone) becomes an empty one, which admission rejects."""
    return record[1] or b""
