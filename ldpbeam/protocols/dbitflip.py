"""The bit-flip protocols (Microsoft): dBitFlip, dBitFlip with permanent memoization, and BinFlip.

``dbitflip`` asks every report about d of b buckets, ``dbitflip_pm`` asks a device about the same d for life
and repeats its memoised bits as they are, ``binflip`` asks about all b.
"""

from __future__ import annotations

from ldpbeam.channels.calibration import sue_round
from ldpbeam.errors import CollectionError
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.parameters import Parameters

__all__ = ["BinFlip", "DBitFlip", "DBitFlipPM"]


def _buckets(parameters: Parameters) -> int:
    if parameters.d is None:
        raise CollectionError(
            "E-COLLECTION-MISSING", "key 'd' is missing", key="d", remedy="Add it, for example d: 1."
        )
    return parameters.d


class DBitFlip(BitFlip):
    """d of b buckets per report, one round: a fresh set and fresh bits each time."""

    ID = 12
    NAME = "dbitflip"
    PARAMETERS = ("epsilon", "d")
    SOURCE = "Microsoft section 2.2"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> DBitFlip:
        """SUE's bits at ε."""
        return cls(domain_size, _buckets(parameters), sue_round(parameters.level("epsilon")))


class DBitFlipPM(BitFlip):
    """dBitFlip with permanent memoization: d buckets for life, memoised bits sent as they are.

    No second round: whoever sees two different reports of a device knows that its value changed.
    """

    ID = 13
    NAME = "dbitflip_pm"
    PARAMETERS = ("epsilon_longitudinal", "d")
    SOURCE = "Microsoft section 3.4, LOLOHA section 2.4.4; variance: docs/maths.md correction 3"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> DBitFlipPM:
        """SUE's bits at ε∞."""
        bits = sue_round(parameters.level("epsilon_longitudinal"))
        return cls(domain_size, _buckets(parameters), None, bits)


class BinFlip(BitFlip):
    """dBitFlip that asks about every bucket: the mechanism of Duchi, Jordan and Wainwright, SUE's bits."""

    ID = 14
    NAME = "binflip"
    PARAMETERS = ("epsilon",)
    SOURCE = "Microsoft sections 2.2 (d = k) and 5"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> BinFlip:
        """SUE's bits at ε, d = b."""
        return cls(domain_size, domain_size, sue_round(parameters.level("epsilon")))

    def resolved_parameters(self) -> dict[str, int | float | str]:
        """Nothing to resolve: d is the number of buckets."""
        return {}
