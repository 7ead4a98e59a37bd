"""What the reports of a setting tell together: about values, and whatever changed."""

from __future__ import annotations

from functools import lru_cache
from math import inf, nextafter

from ldpbeam.channels.exact import log_above
from ldpbeam.planning.settings import Setting
from ldpbeam.privacy.bit_loss import BitLosses
from ldpbeam.privacy.loss import CURVE_REPORTS, Losses, SymbolLosses
from ldpbeam.privacy.point_loss import PointLosses
from ldpbeam.protocols.one_bit_mean import OneBitRRPM

EXACT_REPORTS = 4
"""Reports up to which the loss of any two sequences is enumerated here; it takes milliseconds."""


def two_reports(setting: Setting) -> float | None:
    """The most that two reports tell, whatever changed between them; None where a device makes one.

    Infinite where they prove a change.
    """
    if setting.reports < 2:
        return None
    found = _exactly(setting, 2)
    return inf if found is None else found


def values_loss(setting: Setting) -> float:
    """What all reports tell about which values a device held, when it changed being known."""
    losses, guarantee = setting.protocol.losses, setting.protocol.guarantee
    cap = guarantee.cap_over_values
    if cap is None:
        return setting.reports * guarantee.first_report
    if losses is None:
        return guarantee.first_report if setting.reports == 1 else cap
    return min(cap, losses.same_changes(setting.reports)) if setting.reports <= CURVE_REPORTS else cap


def any_loss(setting: Setting) -> tuple[float, bool]:
    """(a bound on what all reports tell, whether it is reached), whatever changed."""
    reports = setting.reports
    if reports <= EXACT_REPORTS or not setting.memoised:
        found = _exactly(setting, reports)
        if found is not None:
            return found, True
    points, losses = _points(setting), setting.protocol.losses
    bound = points.round_bound if points is not None else None if losses is None else _round_bound(losses)
    return (inf, True) if bound is None or bound == inf else (reports * bound, False)


def _exactly(setting: Setting, reports: int) -> float | None:
    """Between any two sequences of inputs; None where it is not known."""
    losses, points = setting.protocol.losses, _points(setting)
    if points is not None:
        return points.any_changes(reports)
    if losses is not None:
        return losses.any_changes(reports)
    return reports * setting.protocol.guarantee.first_report


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


def _points(setting: Setting) -> PointLosses | None:
    """Of bits that are memoised for rounding points; None for other protocols."""
    protocol = setting.protocol
    if not isinstance(protocol, OneBitRRPM):
        return None
    points = range(0, protocol.domain_size, protocol.segment)
    return PointLosses(tuple(protocol.bit.weight(point) for point in points), protocol.flip)
