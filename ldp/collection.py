"""A collection: everything that devices and the pipeline agree on, and the digest that names it.

The digest travels in every report, so a report is only ever decoded with its own parameters.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ldp.domain import Domain
from ldp.epochs import Epochs
from ldp.errors import CollectionError
from ldp.protocols import FrequencyProtocol, LocalProtocol, Parameters, protocol
from ldp.wire import collection_pb2

__all__ = ["Collection", "digest_hex"]


@dataclass(frozen=True)
class Collection:
    """A validated collection. Comparable, hashable by digest, cheap to pickle.

    Attributes:
        name: identifier: letters, digits, ``_``, ``-`` and ``.``.
        version: positive; a new one for every change that devices must know about.
        domain: the values.
        protocol_name: key of :data:`ldp.protocols.PROTOCOLS`.
        parameters: levels and choices as given.
        epochs: collection periods.
        owner: whom to ask; not part of the digest, like all that follow.
        allowed_lateness: seconds after the end of an epoch during which reports still count.
        consistency: post-processing method of the published histogram.
        min_reports: below it an epoch's estimates are withheld.
    """

    name: str
    version: int
    domain: Domain
    protocol_name: str
    parameters: Parameters
    epochs: Epochs
    owner: str = ""
    allowed_lateness: int = 0
    consistency: str = "norm_sub"
    min_reports: int = 1
    protocol: LocalProtocol[Any] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Validate and build the protocol.

        Raises:
            CollectionError: anything that is not sound; the text names the key and the remedy.
        """
        allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
        # The name becomes part of file names.
        if (
            not self.name
            or len(self.name) > 100
            or set(self.name) - allowed
            or self.name[0] in ".-"
        ):
            raise CollectionError(
                "E-COLLECTION-NAME",
                "name must be 1 to 100 letters, digits, '_', '-' or '.', starting with a letter or digit",
                remedy="Choose a name such as minutes_in_app.",
            )
        if not 1 <= self.version < 1 << 32:
            raise CollectionError(
                "E-COLLECTION-VERSION",
                f"version must be a positive integer, not {self.version}",
                remedy="Start with version: 1.",
            )
        if not 0 <= self.allowed_lateness < 1 << 32:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                "allowed_lateness must lie in 0 s .. 4294967295 s",
                remedy="Set how long after its end an epoch still takes reports, such as 24h.",
            )
        if not 1 <= self.min_reports < 1 << 63:
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"min_reports must be a positive integer, not {self.min_reports}",
                remedy="Use min_reports: 1 to publish every epoch.",
            )
        built = protocol(self.protocol_name, self.domain.size, self.parameters)
        object.__setattr__(self, "protocol", built)

    @property
    def histograms(self) -> tuple[tuple[str, Domain], ...]:
        """(attribute, domain) of each histogram of an epoch; one without a name for most collections."""
        return (("", self.domain),)

    @property
    def unused_parameters(self) -> tuple[str, ...]:
        """Levels that were given although the protocol does not take them."""
        takes = self.protocol.PARAMETERS
        names = ("epsilon", "epsilon_longitudinal", "epsilon_first")
        return tuple(n for n in names if n not in takes and getattr(self.parameters, n) is not None)

    def to_message(self) -> collection_pb2.Collection:
        """The protobuf form; parameters that the protocol does not take are left out, g is resolved."""
        kind = self.protocol
        message = collection_pb2.Collection(
            name=self.name,
            version=self.version,
            protocol=self.protocol_name,
            owner=self.owner,
            allowed_lateness_seconds=self.allowed_lateness,
            consistency=self.consistency,
            min_reports=self.min_reports,
        )
        message.domain.size = self.domain.size
        message.domain.labels.extend(self.domain.labels or ())
        if self.domain.maximum is not None:
            message.domain.maximum = self.domain.maximum
        message.epoch.length_seconds = self.epochs.length
        message.epoch.origin_seconds = self.epochs.origin
        message.epoch.count = self.epochs.count
        for level in kind.PARAMETERS:
            setattr(message, level, self.parameters.level(level))
        if "calibration" in kind.OPTIONAL:
            message.calibration = self.parameters.calibration.value
        if "hash_family" in kind.OPTIONAL:
            message.hash_family = self.parameters.hash_family
        for fact, value in kind.facts().items():
            setattr(message, fact, value)
        return message

    @cached_property
    def digest(self) -> int:
        """First 8 bytes of the SHA-256 of the canonical form, as a little-endian integer."""
        message = self.to_message()
        for name in ("owner", "allowed_lateness_seconds", "consistency", "min_reports"):
            message.ClearField(name)
        canonical = message.SerializeToString(deterministic=True)
        return int.from_bytes(hashlib.sha256(canonical).digest()[:8], "little")

    @property
    def digest_hex(self) -> str:
        """The digest for people: 16 hexadecimal digits, the hash's first bytes in order."""
        return digest_hex(self.digest)

    def as_record(self) -> dict[str, object]:
        """What run.json and the Parquet metadata say about the collection."""
        kind = self.protocol
        chosen: dict[str, object] = {n: self.parameters.level(n) for n in kind.PARAMETERS}
        chosen.update(kind.facts())
        if "calibration" in kind.OPTIONAL:
            chosen["calibration"] = self.parameters.calibration.value
        if "hash_family" in kind.OPTIONAL:
            chosen["hash_family"] = self.parameters.hash_family
        support = kind.support if isinstance(kind, FrequencyProtocol) else None
        return {
            "name": self.name,
            "version": self.version,
            "digest": self.digest_hex,
            "owner": self.owner,
            "protocol": self.protocol_name,
            "parameters": chosen,
            "domain_size": self.domain.size,
            "payload_bits": kind.payload_bits,
            "epoch": {
                "length_seconds": self.epochs.length,
                "origin": self.epochs.start_time(0).isoformat().replace("+00:00", "Z"),
                "count": self.epochs.count,
            },
            "allowed_lateness_seconds": self.allowed_lateness,
            "consistency": self.consistency,
            "min_reports": self.min_reports,
            "support": {"own": float(support.own), "other": float(support.other)}
            if support
            else None,
            "guarantee": kind.guarantee.as_record(),
        }


def digest_hex(digest: int) -> str:
    """16 hexadecimal digits of a digest, in the order of the hash's bytes."""
    return digest.to_bytes(8, "little").hex()
