"""A second way to the loss of several reports about one value: from what a guarantee keeps."""

from __future__ import annotations

from ldpbeam.channels.exact import log_above
from ldpbeam.privacy.guarantee import Guarantee


def constant_value_loss(guarantee: Guarantee, reports: int, symbols: int) -> float | None:
    """Loss of ``reports`` reports about one unchanged value over a symbol channel of that many symbols."""
    if guarantee.memoised_ratio is None:
        return None
    first, once = guarantee.memoised_ratio, guarantee.first_ratio
    if once == first:  # No second round: every report repeats the first.
        return log_above(first)
    second = (once * (first + symbols - 2) - symbols + 1) / (first - once)
    power = second**reports
    return log_above((first * power + symbols - 1) / (first + power + symbols - 2))
