"""Which epochs a device may report: each of them once, in order, whatever its clock shows.

A clock that was ahead leaves a report in an epoch that has not begun. The device then goes on in the epochs
that it jumped over. For this it remembers which ones it has reported: as spans, a few of them, of which the
closest two become one where there are too many. So the spans hold every epoch that was reported, and perhaps
others. An epoch in a span is never drawn for again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ldpbeam.collection.epochs import Epochs
from ldpbeam.errors import DeviceError
from ldpbeam.wire import device_state_pb2

MOST = 8
"""Spans of a collection."""

DAY = 86400
"""Seconds. A clock that was doubted is believed once it has gone on for so long, and one that is set back by
more takes the device back to epochs that it jumped over."""


class Range(NamedTuple):
    """The epochs of a span, without its report."""

    first_epoch: int
    last_epoch: int


def ranges(entry: device_state_pb2.CollectionState) -> list[Range]:
    """What stays the same when the entry changes."""
    return [Range(one.first_epoch, one.last_epoch) for one in entry.spans]


def contain(spans: Iterable[Range | device_state_pb2.Span], epoch: int) -> bool:
    return any(one.first_epoch <= epoch <= one.last_epoch for one in spans)


def add(entry: device_state_pb2.CollectionState, epoch: int) -> device_state_pb2.Span:
    """Add an epoch that is in no span; the span of it, for its report to be set."""
    current = device_state_pb2.Span(first_epoch=epoch, last_epoch=epoch)
    others = []
    for one in entry.spans:
        if one.last_epoch == epoch - 1:
            current.first_epoch = one.first_epoch
        elif one.last_epoch < epoch:
            others.append(
                device_state_pb2.Span(first_epoch=one.first_epoch, last_epoch=one.last_epoch, forgotten=True)
            )
        else:
            span = device_state_pb2.Span()
            span.CopyFrom(one)
            others.append(span)
    del entry.spans[:]
    entry.spans.extend([*_joined(others, epoch), current] if len(others) == MOST else [*others, current])
    return entry.spans[-1]


def _joined(spans: Sequence[device_state_pb2.Span], epoch: int) -> list[device_state_pb2.Span]:
    """One span less: the two with the fewest epochs between them become one, with the later one's report."""
    ordered = sorted(spans, key=lambda one: one.first_epoch)
    pairs = [
        (lower, upper)
        for lower, upper in pairwise(ordered)
        if not lower.last_epoch < epoch < upper.first_epoch
    ]
    lower, upper = min(pairs, key=lambda pair: pair[1].first_epoch - pair[0].last_epoch)
    upper.first_epoch = lower.first_epoch
    return [one for one in ordered if one is not lower]


def require_open(epochs: Epochs, reported: Sequence[Range], epoch: int, now: float) -> None:
    """No epoch is drawn for again, and an earlier one only where the later ones have not begun by the
    clock."""
    later = [
        one.last_epoch
        for one in reported
        if one.last_epoch > epoch
        and epochs.start(one.first_epoch) <= now + (DAY if one == reported[-1] else 0)
    ]
    if later:
        raise epoch_error(f"epoch {epoch} lies before epoch {max(later)}, which was reported", _PASSED)
    if contain(reported, epoch):
        raise epoch_error(f"epoch {epoch} was reported, or lies among epochs that were", _PASSED)


def goes_back(entry: device_state_pb2.CollectionState, epoch: int) -> bool:
    """Whether an epoch lies before the last one that was reported: then the clock had been ahead."""
    return bool(entry.spans) and epoch < entry.spans[-1].first_epoch


def jump(epochs: Epochs, entry: device_state_pb2.CollectionState, epoch: int) -> float:
    """Seconds by which an epoch is after the last one that was reported; 0 before the first report."""
    return (epoch - entry.spans[-1].last_epoch) * float(epochs.length) if entry.spans else 0.0


def believed(entry: device_state_pb2.CollectionState, shown: int) -> bool:
    """Whether the clock has gone on for a day since it was doubted."""
    return entry.HasField("doubted_seconds") and shown >= entry.doubted_seconds + DAY


def doubt(entry: device_state_pb2.CollectionState, shown: int) -> bool:
    """Note the time that the clock shows, unless it has gone on from a noted one; whether it was noted."""
    if entry.HasField("doubted_seconds") and shown >= entry.doubted_seconds:
        return False
    entry.doubted_seconds = shown
    return True


def clock_error(epoch: int, jumped: float) -> DeviceError:
    return DeviceError(
        "E-DEVICE-CLOCK",
        f"epoch {epoch} lies {jumped / DAY:.0f} days after what the device last reported, so that the clock "
        "is in doubt",
        remedy="Set the clock. If it is right, ask again: the device believes it once it has shown such "
        "times for a day, or at once with a larger max_jump.",
    )


def epoch_error(message: str, remedy: str) -> DeviceError:
    return DeviceError("E-DEVICE-EPOCH", message, remedy=remedy)


_PASSED = (
    "Report each epoch once, in order. If the clock is behind, set it. If it was ahead by more than a day, "
    "set it and ask again: the device goes on with the epochs that it has not reported."
)
