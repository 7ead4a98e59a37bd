"""Whether supports are what devices that hold given values give, from the exact law of a support."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import binom

from ldpbeam.support import SupportProbabilities

__all__ = ["fits"]


def fits(
    support: Mapping[str, int], truth: Mapping[str, int], own: SupportProbabilities, false_alarm: float
) -> bool:
    """Whether all supports lie where those of correct devices do, but for a chance of ``false_alarm`` in
    all."""
    n, least = sum(truth.values()), false_alarm / (2 * len(truth))
    for label, held in truth.items():
        law = np.convolve(
            binom.pmf(np.arange(held + 1), held, float(own.own)),
            binom.pmf(np.arange(n - held + 1), n - held, float(own.other)),
        )
        found = support[label]
        if min(law[: found + 1].sum(), law[found:].sum()) < least:
            return False
    return True
