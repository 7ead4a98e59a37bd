"""What a shuffler may do besides mixing: rename the symbols of linear hash functions, to make crowds larger.

A device that keeps its hash function shows it in every report, and hides among those that share it. In the
linear family of g symbols g − 1 functions say the same in other names: a report (s, y) supports the same
values as (c·s, c·y) for each c of 1 .. g − 1. A shuffler that multiplies every report with a c of its own
drawing changes no count, no estimate and no indicator, and leaves only (g^m − 1)/(g − 1) classes of functions
to be told apart (docs/decisions/0024). Payloads stay what they are on the wire.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from ldpbeam.hashing import LinearFamily
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.local_hash import Hashed, LocalHash

LEAST_KEY = 16
"""Bytes of a key at least."""


def renamed_payload(protocol: LocalProtocol[Any], payload: bytes, report_id: int, key: bytes) -> bytes:
    """A payload with the symbols of its hash function renamed; payloads without such a function as they are.

    The factor follows from the shuffler's key and the report id, so that a report which is sent again stays
    the same report, and nobody without the key can undo it. It is uniform up to 2**-64.

    Args:
        protocol: of the collection that the report names.
        payload: of the report.
        report_id: of the report, 64 bits.
        key: random, of at least :data:`LEAST_KEY` bytes, known to the shuffler only; a new one in each epoch.

    Raises:
        InvalidPayload: no device sends this payload.
        ValueError: the key is too short.
    """
    if len(key) < LEAST_KEY:
        raise ValueError(f"the key of a shuffler has at least {LEAST_KEY} bytes, not {len(key)}")
    if not isinstance(protocol, LocalHash) or not isinstance(protocol.family, LinearFamily):
        return payload
    seed, symbol = protocol.decode(payload)
    family = protocol.family
    word = hmac.new(key, report_id.to_bytes(8, "little"), hashlib.sha256).digest()[:8]
    factor = 1 + int.from_bytes(word, "little") % (family.g - 1)
    return protocol.encode(Hashed(*family.renamed(seed, symbol, factor)))
