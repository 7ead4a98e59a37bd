"""Beam metrics of the transforms, in the namespace ``ldpbeam``: for dashboards and alarms.

A bundle that is tried again counts again; the accounts have the exact numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from apache_beam.metrics import Metrics

from ldpbeam.accounting import Entry

NAMESPACE = "ldpbeam"


@cache
def _counter(name: str) -> Any:
    return Metrics.counter(NAMESPACE, name)


@cache
def _distribution(name: str) -> Any:
    return Metrics.distribution(NAMESPACE, name)


def count_reports(what: str, reports: int) -> None:
    """Add to ``reports_WHAT``; ``what`` as the accounting names it, with an underscore for the full stop."""
    if reports:
        _counter(f"reports_{what.replace('.', '_')}").inc(reports)


def count_entries(entries: Iterable[Entry]) -> int:
    """Add entries of the accounting; gives the number of records that were read and admitted."""
    admitted = 0
    for (_, what), count in entries:
        if what != "repeated":  # among the rejected ones
            count_reports(what, count)
            admitted += count if what == "read" else -count
    count_reports("admitted", admitted)
    return admitted


def count_result(reports: int, *, withheld: bool) -> None:
    _counter("results_withheld" if withheld else "results").inc()
    if not withheld:
        _distribution("reports_per_result").update(reports)
