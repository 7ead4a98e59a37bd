"""Every protocol there is, in one explicit table. Adding one is a class in its module and a line here."""

from __future__ import annotations

from typing import Any

from ldpbeam.errors import CollectionError
from ldpbeam.protocols.bit_flip import BinFlip, DBitFlip, DBitFlipPM
from ldpbeam.protocols.contract import FrequencyProtocol, LocalProtocol
from ldpbeam.protocols.device import Memo
from ldpbeam.protocols.direct import GRR, LGRR
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.local_hash import BLH, LOLOHA, OLH
from ldpbeam.protocols.one_bit_mean import OneBitMean, OneBitRRPM
from ldpbeam.protocols.parameters import Parameters
from ldpbeam.protocols.piecewise_mean import PiecewiseMean
from ldpbeam.protocols.public_string import BinFlipPlus
from ldpbeam.protocols.subset import Subset
from ldpbeam.protocols.unary import LOSUE, LOUE, LSOUE, LSUE, OUE, RAPPOR, SUE

__all__ = ["PROTOCOLS", "FrequencyProtocol", "LocalProtocol", "Memo", "Parameters", "protocol"]

_ALL: tuple[type[LocalProtocol[Any]], ...] = (
    GRR,
    SUE,
    OUE,
    BLH,
    OLH,
    Subset,
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
    PiecewiseMean,
)

PROTOCOLS: dict[str, type[LocalProtocol[Any]]] = {}
"""Protocol classes by the name that a collection file uses."""

for _kind in _ALL:
    _same = [one for one in PROTOCOLS.values() if one.NAME == _kind.NAME or one.ID == _kind.ID]
    if _same:
        raise TypeError(
            f"classes {_same[0].__name__} and {_kind.__name__} share NAME {_kind.NAME!r} or ID {_kind.ID}; "
            "each protocol needs its own of both"
        )
    PROTOCOLS[_kind.NAME] = _kind


def protocol(name: str, domain_size: int, parameters: Parameters) -> LocalProtocol[Any]:
    """Build a protocol by name.

    Args:
        name: as in a collection file, a key of :data:`PROTOCOLS`.
        domain_size: k, the number of values.
        parameters: levels and other keys of the collection file.

    Raises:
        CollectionError: there is no such protocol, or the parameters do not fit it.
    """
    kind = PROTOCOLS.get(name)
    if kind is None:
        raise CollectionError(
            "E-COLLECTION-VALUE",
            f"protocol {name!r} does not exist",
            key="protocol",
            remedy=f"Use one of: {', '.join(PROTOCOLS)}.",
        )
    return kind.from_parameters(domain_size, parameters)
