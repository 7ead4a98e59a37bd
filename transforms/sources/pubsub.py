"""Messages of a Pub/Sub subscription through Beam's Java connector, for runners other than Dataflow."""

import apache_beam as beam
from apache_beam.transforms.external import ExternalTransform, ImplicitSchemaPayloadBuilder

__all__ = ["ReadPubsub"]

URN = "beam:transform:org.apache.beam:pubsub_read:v1"


class ReadPubsub(beam.PTransform):
    """The data of each message, in event time.

    The timestamp is that of publication, or what a collector wrote into an attribute. A message is
    acknowledged once a checkpoint holds it, so a job that recovers has it in its state or gets it again.
    Where these overlap, a message comes twice; its reports then count once, by their ids, and as duplicates.
    """

    def __init__(
        self,
        subscription: str,
        expansion_service: str,
        timestamp_attribute: str = "",
        label: str | None = None,
    ) -> None:
        """`subscription` is its full path, `expansion_service` is host:port."""
        super().__init__(label)
        self._configuration: dict[str, object] = {"subscription": subscription, "with_attributes": False}
        if timestamp_attribute:
            self._configuration["timestamp_attribute"] = timestamp_attribute
        self._service = expansion_service

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[bytes]:
        """The external read."""
        payload = ImplicitSchemaPayloadBuilder(self._configuration)
        return pipeline | "Pubsub" >> ExternalTransform(URN, payload, self._service)
