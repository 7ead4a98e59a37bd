"""The columns that answers of all kinds have: about which epochs they are, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ldpbeam.over_time.results import History
from ldpbeam.over_time.rollup import Periods, Span
from ldpbeam.tables import instants, numbers

_SUMS = ("estimate", "std_error", "std_error_floor", "ci_low", "ci_high", "ci_low_all", "ci_high_all")


def front_columns(
    history: History, span: Span, periods: Periods | None, epochs: int, rows: int
) -> dict[str, Any]:
    """Of a period, ``epochs`` of which have a result; without periods of a single epoch."""
    import pyarrow as pa

    own = {"epoch": span.first} if periods is None else {"first_epoch": span.first, "last_epoch": span.last}
    begin, end = ("epoch_start", "epoch_end") if periods is None else ("start", "end")
    key, several = history.key, {}
    if periods is not None:
        several = {"epochs": pa.array([epochs] * rows, pa.int64()), "weight": [periods.weight] * rows}
    return {
        "collection": [key.collection] * rows,
        "version": pa.array([key.version] * rows, pa.int64()),
        "digest": [key.digest] * rows,
        **{name: pa.array([one] * rows, pa.int64()) for name, one in own.items()},
        begin: instants([span.start] * rows),
        end: instants([span.end] * rows),
        **several,
        "provisional": pa.array([span.provisional] * rows),
        "attribute": [key.attribute] * rows,
    }


def sum_columns(n: Any, *found: Any) -> dict[str, Any]:
    """Reports, estimates, their errors and their limits; those of all sums at once may be left out."""
    import pyarrow as pa

    columns = {name: numbers(one) for name, one in zip(_SUMS, found, strict=False)}
    return {"n": pa.array(n, pa.int64()), **columns}


def quantile_columns(
    shares: Sequence[float], places: Sequence[tuple[int | None, ...]], label: Callable[[int], str]
) -> dict[str, Any]:
    """Quantiles and their limits as values and as labels; null where nothing is known."""
    import pyarrow as pa

    columns: dict[str, Any] = {"quantile": pa.array(shares, pa.float64())}
    for number, name in enumerate(("", "_low", "_high")):
        at = [place[number] for place in places]
        columns[f"value{name}"] = pa.array(at, pa.int64())
        columns[f"label{name}"] = pa.array([None if x is None else label(x) for x in at], pa.string())
    return columns
