"""What several reports of a protocol tell together: about values, and whatever changed."""

from __future__ import annotations

from functools import lru_cache
from math import inf, nextafter
from typing import Any

from ldpbeam.channels.exact import log_above
from ldpbeam.privacy.bit_loss import BitLosses
from ldpbeam.privacy.loss import CURVE_REPORTS, Losses, SymbolLosses
from ldpbeam.privacy.point_loss import PointLosses
from ldpbeam.protocols import LocalProtocol
from ldpbeam.protocols.one_bit_mean import OneBitRRPM

EXACT_REPORTS = 4
"""Reports up to which the loss of any two sequences is enumerated here; it takes milliseconds."""


def two_reports(protocol: LocalProtocol[Any], reports: int) -> float | None:
    """The most that two reports tell, whatever changed between them; None where a device makes one.

    Infinite where they prove a change.
    """
    if reports < 2:
        return None
    found = exact_loss(protocol, 2)
    return inf if found is None else found


def values_loss(protocol: LocalProtocol[Any], reports: int) -> float:
    """What all reports tell about which values a device held, when it changed being known."""
    losses, guarantee = protocol.losses, protocol.guarantee
    cap = guarantee.cap_over_values
    if cap is None:
        return reports * guarantee.first_report
    if losses is None:
        return guarantee.first_report if reports == 1 else cap
    return min(cap, losses.same_changes(reports)) if reports <= CURVE_REPORTS else cap


def any_loss(protocol: LocalProtocol[Any], reports: int) -> tuple[float, bool]:
    """(a bound on what all reports tell, whether it is reached), whatever changed."""
    if reports <= EXACT_REPORTS or protocol.guarantee.memoised_ratio is None:
        found = exact_loss(protocol, reports)
        if found is not None:
            return found, True
    points, losses = _points(protocol), protocol.losses
    bound = points.round_bound if points is not None else None if losses is None else _round_bound(losses)
    return (inf, True) if bound is None or bound == inf else (reports * bound, False)


def exact_loss(protocol: LocalProtocol[Any], reports: int) -> float | None:
    """Between any two sequences of inputs; None where it is not known."""
    losses, points = protocol.losses, _points(protocol)
    if points is not None:
        return points.any_changes(reports)
    if losses is not None:
        return losses.any_changes(reports)
    return reports * protocol.guarantee.first_report


@lru_cache(512)
def _round_bound(losses: Losses) -> float | None:
    """A bound on what one more report tells, given everything that is memoised: ε of the second round.

    All that two sequences of inputs change is which memoised answers the reports are drawn from, and the
    ratio of one report under two answers is at most this. None where there is no second round.
    """
    if isinstance(losses, SymbolLosses):
        return log_above(losses.instant.ratio)
    if isinstance(losses, BitLosses) and losses.instant is not None:
        own, other = losses.instant.own, losses.instant.other
        bit = max(own / other, (1 - other) / (1 - own))
        return nextafter(losses.inputs * log_above(bit), inf)
    return None


def _points(protocol: LocalProtocol[Any]) -> PointLosses | None:
    """Of bits that are memoised for rounding points; None for other protocols."""
    if not isinstance(protocol, OneBitRRPM):
        return None
    points = range(0, protocol.domain_size, protocol.segment)
    return PointLosses(tuple(protocol.bit.weight(point) for point in points), protocol.flip)
