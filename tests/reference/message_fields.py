"""Which fields a message has, as the protobuf library finds them, whatever the message is of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

_ONCE = {(1, 1), (2, 0), (3, 1), (4, 2), (5, 0), (7, 2)}
"""Number and wire type of what Report and ReportBatch have once: all but the ids of a batch."""


def gives_a_field_twice(message: bytes) -> bool:
    """Whether a field that is not repeated occurs more than once; the message must be sound protobuf."""
    # Its stub leaves out that it is a sequence.
    unknown = cast("Sequence[Any]", UnknownFieldSet(Empty.FromString(message)))
    found = Counter((field.field_number, field.wire_type) for field in unknown)
    return any(found[one] > 1 for one in _ONCE)
