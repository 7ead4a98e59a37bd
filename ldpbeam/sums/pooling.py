"""Shares of several collections together, such as one for each version of an app."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpbeam.estimates import CONFIDENCE
from ldpbeam.over_time.significance import normal_limit

if TYPE_CHECKING:
    import pyarrow as pa

_WHERE = (
    "epoch",
    "epoch_start",
    "first_epoch",
    "last_epoch",
    "start",
    "weight",
    "attribute",
    "group",
    "value",
    "label",
)
_NUMBERS = ("n", "estimate", "std_error", "std_error_floor")


def _rows(tables: Sequence[pa.Table]) -> Iterator[dict[str, Any]]:
    for table in tables:
        if {"estimate", "std_error"} <= set(table.column_names):
            yield from table.select(["estimate", "std_error"]).to_pylist()


def pooled(tables: Sequence[pa.Table]) -> pa.Table:
    """The shares, or the means, of all devices of several collections, by their numbers of reports.

        >>> import ldpbeam
        >>> text = "{name: NAME, domain: {size: 2}, protocol: grr, epsilon: 2, epoch: {length: 1d}}"
        >>> found = []
        >>> for name, on in (("app-5.0", 1000), ("app-5.1", 3000)):
        ...     collection = ldpbeam.parse_collection(text.replace("NAME", name))
        ...     reports = ldpbeam.simulate(collection, [1] * on + [0] * 2000, seed=7)
        ...     results = ldpbeam.estimate(collection, reports)
        ...     found.append(ldpbeam.group_shares(collection, results, {"on": [1]}))
        >>> (row,) = ldpbeam.pooled(found).to_pylist()
        >>> print("{n} reports: {estimate:.3f} ± {std_error:.3f}".format(**row))
        8000 reports: 0.502 ± 0.005

    The devices of different collections are different ones, and draw their noise independently: variances add
    up, with the squares of the numbers of reports. These numbers are public.

    Args:
        tables: one per collection, each from :func:`ldpbeam.group_shares`, ``cumulative_shares`` or
            ``value_mean``, over the same periods and with the same groups.

    Returns:
        A row for each period and group: ``collections`` (how many have an estimate), ``n``, ``estimate``,
        ``std_error``, ``std_error_floor``, ``ci_low``, ``ci_high``. A collection without a row of a period
        counts for nothing there: nothing was counted of it, as before a version is rolled out. Numbers are
        null where a collection has a row without an estimate, such as one of too few reports.

    Raises:
        ValueError: no tables, tables of other questions, of a distribution, or one collection twice.
    """
    import pyarrow as pa

    if not tables:
        raise ValueError("there is no table")
    if any(row["estimate"] is not None and row["std_error"] is None for row in _rows(tables)):
        raise ValueError("pooled takes estimates with standard errors, which distributions do not have")
    names = [name for name in _WHERE if name in tables[0].column_names]
    digests: set[str] = set()
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for table in tables:
        if any(name not in table.column_names for name in (*names, *_NUMBERS, "digest")):
            raise ValueError("pooled takes tables of one question, with estimates")
        mine = set(table["digest"].to_pylist())
        if mine & digests:
            raise ValueError("one collection is there twice: its devices would count twice")
        digests |= mine
        for row in table.to_pylist():
            rows.setdefault(tuple(row[name] for name in names), []).append(row)
    z = normal_limit(CONFIDENCE)
    columns: dict[str, list[Any]] = {name: [] for name in ("collections", *_NUMBERS, "ci_low", "ci_high")}
    for parts in rows.values():
        known = [part for part in parts if part["estimate"] is not None]
        n = np.array([part["n"] for part in known], np.float64)
        numbers: list[float | None] = [None] * 3
        if len(known) == len(parts):
            share = n / n.sum()
            estimate, *errors = (np.array([part[name] for part in known]) for name in _NUMBERS[1:])
            numbers = [float(share @ estimate), *(float(np.sqrt(share**2 @ one**2)) for one in errors)]
        estimated, error = numbers[:2]
        low = high = None
        if estimated is not None and error is not None:
            low, high = estimated - z * error, estimated + z * error
        for name, one in zip(columns, (len(known), int(n.sum()), *numbers, low, high), strict=True):
            columns[name].append(one)
    front = {
        name: pa.array([where[at] for where in rows], tables[0].schema.field(name).type)
        for at, name in enumerate(names)
    }
    kinds = {name: pa.int64() if name in ("collections", "n") else pa.float64() for name in columns}
    return pa.table({**front, **{name: pa.array(one, kinds[name]) for name, one in columns.items()}})
