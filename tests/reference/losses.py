"""A second way to the loss of several reports about one value: from what a guarantee keeps."""

from __future__ import annotations

from ldpbeam.channels.exact import log_above
from ldpbeam.privacy.guarantee import Guarantee


def constant_value_loss(guarantee: Guarantee, reports: int, symbols: int) -> float | None:
    """Loss of ``reports`` reports about one unchanged value over a symbol channel of that many symbols.

    ε_t = ln[(e^{ε∞+t·ε_IRR}+m−1)/(e^{ε∞}+e^{t·ε_IRR}+m−2)], which tends to ε∞: ALLOMFREE Eq. 16 with the
    second round's own level (docs/maths.md correction 5), which is had by inverting the composition.
    """
    if guarantee.memoised_ratio is None:
        return None
    first, once = guarantee.memoised_ratio, guarantee.first_ratio
    if once == first:  # No second round: every report repeats the first.
        return log_above(first)
    second = (once * (first + symbols - 2) - symbols + 1) / (first - once)
    power = second**reports
    return log_above((first * power + symbols - 1) / (first + power + symbols - 2))
