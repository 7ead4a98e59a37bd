"""Messages of a Pub/Sub subscription: by Dataflow itself, or through Beam's Java connector."""

from collections.abc import Mapping

import apache_beam as beam
from apache_beam.transforms.external import ExternalTransform, ImplicitSchemaPayloadBuilder

from ldpbeam.errors import UsageError

from ..composite import composite

URN = "beam:transform:org.apache.beam:pubsub_read:v1"


@composite
def read_pubsub(
    pipeline: beam.Pipeline, subscription: str, expansion_service: str, timestamp_attribute: str = ""
) -> beam.PCollection[bytes]:
    """The data of each message, in event time, through the expansion service at host:port."""
    configuration: dict[str, object] = {"subscription": subscription, "with_attributes": False}
    if timestamp_attribute:
        configuration["timestamp_attribute"] = timestamp_attribute
    payload = ImplicitSchemaPayloadBuilder(configuration)
    return pipeline | "Pubsub" >> ExternalTransform(URN, payload, expansion_service)


def read(given: Mapping[str, str], runner: str, *, portable: bool) -> beam.PTransform:
    subscription, attribute = given["subscription"], given.get("timestamp_attribute", "")
    if service := given.get("pubsub_expansion"):
        return read_pubsub(subscription, service, attribute)
    if portable:
        raise UsageError(
            "E-USAGE-OPTION",
            f"{runner} reads Pub/Sub through Beam's Java connector; no expansion service was given",
            remedy="Give --pubsub-expansion HOST:PORT; ldpbeam docs flink says how to start one.",
        )
    return beam.io.ReadFromPubSub(
        subscription=subscription, with_attributes=True, timestamp_attribute=attribute or None
    )
