"""Judges a batch of messages: they are landed together under one number, as a segment."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ldpbeam.accounting import Entry
from ldpbeam.admission import Admission, Parts, Rejection, by_epoch
from ldpbeam.collection.collection import Collection, digest_hex
from ldpbeam.errors import Reason
from ldpbeam.reports import admit_frames
from ldpbeam.wire import codec

EpochKey = tuple[str, int]
"""Digest of a collection, 16 hexadecimal digits, and index of one of its epochs."""

Place = tuple[int, int]
"""Of a refused message: number of its segment, and its byte offset among the refused messages of it."""


class RefusedMessage(NamedTuple):
    """A message with a report that was not admitted."""

    place: int
    reason: Reason
    message: bytes


@dataclass(frozen=True)
class Segment:
    """Judged messages that are landed together."""

    watermark: int
    now: int = 0
    messages: int = 0
    unstamped: int = 0
    entries: tuple[Entry, ...] = ()
    admitted: tuple[Parts, ...] = ()
    refused: tuple[RefusedMessage, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    taken: tuple[tuple[str, int], ...] = ()
    replayed: frozenset[Place] = frozenset()


def judge(
    messages: Sequence[bytes],
    arrivals: Sequence[int],
    collections: Mapping[int, Collection],
    *,
    watermark: int,
    now: int = 0,
    closed: Container[EpochKey] = frozenset(),
    unstamped: int = 0,
    taken: tuple[tuple[str, int], ...] = (),
) -> Segment:
    """Judge messages; no message raises an error."""
    frames = codec.joined(messages)
    when = np.maximum(np.array(arrivals, np.int64), watermark)
    admission = Admission()
    admit_frames(frames, collections, "", admission, arrivals=when)
    _leave_closed(admission, closed)
    refused, rejections = _refused(messages, frames, admission)
    # Without the empty ones: an epoch of which nothing was read has no accounting.
    entries = tuple(entry for entry in admission.entries() if entry[1])
    admitted = tuple(by_epoch(admission.admitted))
    return Segment(watermark, now, len(messages), unstamped, entries, admitted, refused, rejections, taken)


def _leave_closed(admission: Admission, closed: Container[EpochKey]) -> None:
    """Count as late what was admitted of closed epochs, whose reports may be gone already."""
    shut = {key for key in {(digest_hex(c.digest), c.epoch) for c in admission.admitted} if key in closed}
    for columns in admission.admitted:
        key = (digest_hex(columns.digest), columns.epoch)
        if key in shut:
            admission.late[key] += len(columns)
    admission.admitted = [c for c in admission.admitted if (digest_hex(c.digest), c.epoch) not in shut]


def _refused(
    messages: Sequence[bytes], frames: codec.Frames, admission: Admission
) -> tuple[tuple[RefusedMessage, ...], tuple[Rejection, ...]]:
    """Messages with a rejection, one after the other, and the rejections with places among them."""
    if not admission.rejections:
        return (), ()

    def index_of(places: Any) -> Any:
        return np.searchsorted(frames.offsets, places, "right") - 1

    reasons: dict[int, Reason] = {}
    for reason, places in admission.rejected_places:
        reasons.update(dict.fromkeys(index_of(places).tolist(), reason))
    begins: dict[int, int] = {}
    end = 0
    for index in sorted(reasons):
        end += len(codec.framed(messages[index]))
        begins[index] = end - len(messages[index])
    refused = tuple(
        RefusedMessage(begins[index], reasons[index], messages[index]) for index in sorted(reasons)
    )
    moved = tuple(replace(r, place=begins[int(index_of(r.place))]) for r in admission.rejections)
    return refused, moved
