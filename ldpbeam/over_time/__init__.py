"""Results read over several epochs: how their errors go together, and what follows from it.

A device with a memo repeats what it memoised, so errors of different epochs are correlated. docs/over-time.md
has the formulas and their proofs.
"""

from ldpbeam.over_time.covariance import DrawnAnew, MemoErrors, errors_of, memo_errors
from ldpbeam.over_time.series import Series
from ldpbeam.over_time.weighted_sums import Combined, combined, difference, mean, trend

__all__ = [
    "Combined",
    "DrawnAnew",
    "MemoErrors",
    "Series",
    "combined",
    "difference",
    "errors_of",
    "mean",
    "memo_errors",
    "trend",
]
