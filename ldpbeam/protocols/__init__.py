"""Every protocol there is, in one explicit table. Adding one is a class in its module and a line here."""

from __future__ import annotations

from typing import Any

from ldpbeam.errors import CollectionError
from ldpbeam.protocols.bit_flip import BinFlip, DBitFlip, DBitFlipPM
from ldpbeam.protocols.contract import LocalProtocol, Memo
from ldpbeam.protocols.direct import GRR, LGRR
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.local_hash import BLH, LOLOHA, OLH
from ldpbeam.protocols.one_bit_mean import OneBitMean, OneBitRRPM
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.public_string import BinFlipPlus
from ldpbeam.protocols.results import FrequencyProtocol
from ldpbeam.protocols.unary import LOSUE, LOUE, LSOUE, LSUE, OUE, RAPPOR, SUE

__all__ = ["PROTOCOLS", "FrequencyProtocol", "LocalProtocol", "Memo", "Parameters", "protocol"]

_ALL: tuple[type[LocalProtocol[Any]], ...] = (
    GRR,
    SUE,
    OUE,
    BLH,
    OLH,
    LGRR,
    LSUE,
    LOSUE,
    LOUE,
    LSOUE,
    LOLOHA,
    DBitFlip,
    DBitFlipPM,
    BinFlip,
    BinFlipPlus,
    RAPPOR,
    OneBitMean,
    OneBitRRPM,
    LaplaceMean,
)

PROTOCOLS: dict[str, type[LocalProtocol[Any]]] = {kind.NAME: kind for kind in _ALL}
"""Protocol classes by the name that a collection file uses."""


def protocol(name: str, domain_size: int, parameters: Parameters) -> LocalProtocol[Any]:
    """Build a protocol by name.

    Raises:
        CollectionError: no such protocol, or parameters it cannot work with.
    """
    kind = PROTOCOLS.get(name)
    if kind is None:
        raise CollectionError(
            "E-COLLECTION-PROTOCOL",
            f"protocol {name!r} does not exist",
            key="protocol",
            remedy=f"Use one of: {', '.join(PROTOCOLS)}.",
        )
    return kind.from_parameters(domain_size, parameters)
