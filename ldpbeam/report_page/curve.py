"""The cumulative curve of an ordered domain, of estimates that were added up and of distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ldpbeam.report_page.parts import Table
from ldpbeam.report_page.text import share

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
MEDIAN = QUANTILES.index(0.5)


def drawn_places(size: int, most: int) -> list[int]:
    """Every few of many values, and the last: each point is a share, so that none has to be averaged.

    Args:
        size: number of values.
        most: points, about.
    """
    step = math.ceil(size / most)
    return sorted({*range(step - 1, size, step), size - 1})


def quantile_table(epoch: int, labels: Sequence[str], marks: Sequence[tuple[float, int, int, int]]) -> Table:
    """The table below a curve.

    Args:
        epoch: that the curve is of.
        labels: of the values.
        marks: of each quantile its share, and the places of its value and of that value's 95 % limits.
    """
    return Table(
        title=f"Table: quantiles of epoch {epoch}",
        head=["share of the devices", "at this value or below", "95 % low", "95 % high"],
        rows=[[share(part, 0.01), *(labels[at] for at in of)] for part, *of in marks],
        names=4,
    )
