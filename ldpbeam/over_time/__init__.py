"""Results read over several epochs: how their errors go together, and what follows from it.

A device with a memo repeats what it memoised, so errors of different epochs are correlated. docs/over-time.md
has the formulas and their proofs.
"""

from ldpbeam.over_time.compare import Comparison, compare_epochs
from ldpbeam.over_time.covariance import DrawnAnew, MemoErrors, errors_of, memo_errors
from ldpbeam.over_time.results import History, histories
from ldpbeam.over_time.series import Series
from ldpbeam.over_time.weighted_sums import Combined, combined, difference, mean, trend

__all__ = [
    "Combined",
    "Comparison",
    "DrawnAnew",
    "History",
    "MemoErrors",
    "Series",
    "combined",
    "compare_epochs",
    "difference",
    "errors_of",
    "histories",
    "mean",
    "memo_errors",
    "trend",
]
