"""What an epoch's histogram looks like as a table: one schema for Parquet, BigQuery and messages.

Consistent frequencies are not to be added up: each is biased a little, and the biases of many values add up
too. Sums of raw estimates have no bias, if the values were chosen without looking at them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.slices import COLUMN, WHOLE
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.histogram import EpochHistogram, SliceHistogram
from ldpbeam.over_time.covariance import errors_of, std_error_floor

CUMULATIVE = ("cumulative", "cumulative_ci_low", "cumulative_ci_high")
"""Columns that only results of the kind ``distribution`` have."""

DESCRIPTIONS = {
    "collection": "name of the collection",
    "version": "its version",
    "digest": "its digest, 16 hexadecimal digits",
    "epoch": "index, 0 is the epoch that begins at the origin",
    "epoch_start": "first instant of the epoch, UTC",
    "epoch_end": "first instant after it, UTC",
    "revision": "0 for the first result of an epoch, one more for each that follows",
    "attribute": "name of the attribute; empty where a collection asks for one value",
    "value": "index of the value, 0 .. k−1",
    "label": "its label, its bucket's bounds, or its index",
    "n": "reports counted in the epoch that speak about the value",
    "support": "how many of them support the value; an exact integer",
    "estimate": "unbiased frequency; may be negative, sums to about 1",
    "std_error": "square root of its estimated variance",
    "std_error_floor": "the part of it that repeats itself while devices keep their values; 0 without a memo",
    "ci_low": "lower end of the 95 % interval; not below 0 unless the estimate is",
    "ci_high": "upper end of the 95 % interval; not above 1 (m for a mean) unless the estimate is",
    "ci_low_all": "lower end of an interval that holds for all values of the epoch at once",
    "ci_high_all": "its upper end",
    "consistent": "frequency after the consistency method; not to be added up, its bias adds up too",
    "method": "that method",
    "pane": "`early` (provisional), `on_time`, `late` (with reports that came after the end) or `replay`",
    "status": "`ok`, or `insufficient_reports`: fewer than `min_reports`, estimates are null",
    "cumulative": "share of the devices at the value or below it; rises to 1",
    "cumulative_ci_low": "lower end of the 95 % interval of that share",
    "cumulative_ci_high": "its upper end",
}
"""What each column of the estimates means."""


def epoch_fields() -> list[Any]:
    """The Arrow fields that every row of a result begins with: collection, epoch, revision, attribute."""
    import pyarrow as pa

    return [
        pa.field("collection", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("epoch_start", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("epoch_end", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("revision", pa.int32(), nullable=False),
        pa.field("attribute", pa.string(), nullable=False),
    ]


def epoch_cells(collection: Collection, histogram: EpochHistogram) -> dict[str, Any]:
    """What all rows of an epoch have: the columns of :func:`epoch_fields` but the attribute, and the pane."""
    epochs, epoch = collection.epochs, histogram.epoch
    return {
        "collection": collection.name,
        "version": collection.version,
        "digest": collection.digest_hex,
        "epoch": epoch,
        "epoch_start": epochs.start(epoch) * 1_000_000,
        "epoch_end": epochs.end(epoch) * 1_000_000,
        "revision": histogram.revision,
        "pane": histogram.pane,
    }


def estimates_schema(collection: Collection) -> Any:
    """The Arrow schema of estimates, with the collection and its privacy figures as metadata."""
    import pyarrow as pa

    record = collection.as_record()
    guarantee = collection.protocol.guarantee
    metadata = {
        "ldpbeam.collection": json.dumps(record, sort_keys=True),
        "ldpbeam.epsilon_first_report": repr(guarantee.first_report),
        "ldpbeam.epsilon_per_memoised_input": repr(guarantee.per_memoised_input),
    }
    return pa.schema(
        [
            *epoch_fields(),
            pa.field("value", pa.int64(), nullable=False),
            pa.field("label", pa.string(), nullable=False),
            pa.field("n", pa.int64(), nullable=False),
            pa.field("support", pa.int64(), nullable=False),
            pa.field("estimate", pa.float64()),
            pa.field("std_error", pa.float64()),
            pa.field("std_error_floor", pa.float64()),
            pa.field("ci_low", pa.float64()),
            pa.field("ci_high", pa.float64()),
            pa.field("ci_low_all", pa.float64()),
            pa.field("ci_high_all", pa.float64()),
            pa.field("consistent", pa.float64()),
            pa.field("method", pa.string(), nullable=False),
            pa.field("pane", pa.string(), nullable=False),
            pa.field("status", pa.string(), nullable=False),
            *(pa.field(name, pa.float64()) for name in CUMULATIVE if collection.is_distribution),
        ],
        metadata,
    )


def fixed_columns(collection: Collection) -> dict[str, Any]:
    import pyarrow as pa

    attributes, values, labels = [], [], []
    parts = [part.protocol for part in collection.estimators]
    for (name, domain), part in zip(collection.histograms, parts, strict=True):
        attributes.append(pa.repeat(pa.scalar(name, pa.string()), part.estimator.size))
        values.append(np.arange(part.estimator.size))
        named = (
            map(domain.label, range(part.estimator.size)) if part.estimator.size == domain.size else ["mean"]
        )
        labels.append(pa.array(named, pa.string()))
    return {
        "schema": estimates_schema(collection),
        "attribute": pa.concat_arrays(attributes),
        "value": pa.array(np.concatenate(values), pa.int64()),
        "label": pa.concat_arrays(labels),
    }


def epoch_table(collection: Collection, histogram: EpochHistogram, fixed: dict[str, Any]) -> Any:
    """Rows of an epoch in the order of attributes and values."""
    import pyarrow as pa

    sizes = [one.support.size for one in histogram.attributes]
    if collection.is_discovery:
        fixed = fixed | _found_columns(histogram)

    def integers(name: str) -> Any:
        columns = [
            getattr(one.estimates, name) if one.estimates else np.full(size, one.reports)
            for one, size in zip(histogram.attributes, sizes, strict=True)
        ]
        return pa.array(np.concatenate(columns), pa.int64())

    def floats(name: str, consistent: bool = False) -> Any:
        columns = []
        for one, size in zip(histogram.attributes, sizes, strict=True):
            column = one.consistent if consistent else getattr(one.estimates, name, None)
            columns.append(np.full(size, np.nan) if column is None else column)
        # Rows that nobody reported about hold NaN; readers get null.
        return numbers(np.concatenate(columns))

    def floors() -> Any:
        columns = []
        for errors, one, size in zip(errors_of(collection), histogram.attributes, sizes, strict=True):
            known = one.estimates
            columns.append(
                np.full(size, np.nan)
                if known is None or collection.is_discovery
                else std_error_floor(errors, known.frequency, known.n, known.std_error)
            )
        return numbers(np.concatenate(columns))

    def repeated(value: Any, kind: Any) -> Any:
        return pa.repeat(pa.scalar(value, kind), sum(sizes))

    def instants(seconds: int) -> Any:
        return pa.array(np.full(sum(sizes), seconds * 1_000_000)).cast(pa.timestamp("us", "UTC"))

    def cumulative() -> dict[str, Any]:
        columns: list[list[Floats]] = [[], [], []]
        for one, size in zip(histogram.attributes, sizes, strict=True):
            known = one.estimates.distribution if one.estimates else None
            unknown = [np.full(size, np.nan)] * len(CUMULATIVE)
            parts = unknown if known is None else (known.cumulative, *known.limits(CONFIDENCE))
            for column, part in zip(columns, parts, strict=True):
                column.append(part)
        return dict(zip(CUMULATIVE, map(numbers, map(np.concatenate, columns)), strict=True))

    states = [
        pa.repeat(pa.scalar(one.status, pa.string()), size)
        for one, size in zip(histogram.attributes, sizes, strict=True)
    ]
    columns = {
        "collection": repeated(collection.name, pa.string()),
        "version": repeated(collection.version, pa.int64()),
        "digest": repeated(collection.digest_hex, pa.string()),
        "epoch": repeated(histogram.epoch, pa.int64()),
        "epoch_start": instants(collection.epochs.start(histogram.epoch)),
        "epoch_end": instants(collection.epochs.end(histogram.epoch)),
        "revision": repeated(histogram.revision, pa.int32()),
        "attribute": fixed["attribute"],
        "value": fixed["value"],
        "label": fixed["label"],
        "n": integers("n"),
        "support": pa.array(np.concatenate([one.support for one in histogram.attributes]), pa.int64()),
        "estimate": floats("frequency"),
        "std_error": floats("std_error"),
        "std_error_floor": floors(),
        "ci_low": floats("low"),
        "ci_high": floats("high"),
        "ci_low_all": floats("low_all"),
        "ci_high_all": floats("high_all"),
        "consistent": floats("", consistent=True),
        "method": repeated(collection.consistency, pa.string()),
        "pane": repeated(histogram.pane, pa.string()),
        "status": pa.concat_arrays(states),
        **(cumulative() if CUMULATIVE[0] in fixed["schema"].names else {}),
    }
    return pa.table(columns, schema=fixed["schema"])


def _found_columns(histogram: EpochHistogram) -> dict[str, Any]:
    """The columns of what was found, the most frequent first."""
    import pyarrow as pa

    (one,) = histogram.attributes
    labels = () if one.estimates is None else one.estimates.labels or ()
    return {
        "attribute": pa.repeat(pa.scalar("", pa.string()), len(labels)),
        "value": pa.array(range(len(labels)), pa.int64()),
        "label": pa.array(labels, pa.string()),
    }


def table_by_slice(
    collection: Collection, histogram: EpochHistogram, table: Callable[[EpochHistogram], Any]
) -> Any:
    """A table of the whole and of each slice, with a column for each dimension; null where it is summed over.

    Args:
        collection, histogram: of the epoch.
        table: the table of one histogram, whatever it is a slice of.
    """
    import pyarrow as pa

    names = [one.name for one in collection.slices.dimensions]
    parts = []
    for one in (SliceHistogram(WHOLE, histogram.attributes), *histogram.slices):
        rows, labels = table(replace(histogram, attributes=one.attributes)), dict(one.slice)
        for place, name in enumerate(names):
            column = pa.repeat(pa.scalar(labels.get(name), pa.string()), rows.num_rows)
            rows = rows.add_column(place, pa.field(COLUMN + name, pa.string()), column)
        parts.append(rows)
    return pa.concat_tables(parts)


def numbers(column: Floats | Sequence[float]) -> Any:
    """An Arrow column of float64, with null for what is not a number."""
    import pyarrow as pa

    return pa.array(column, pa.float64(), from_pandas=True)


def instants(microseconds: Sequence[int]) -> Any:
    """An Arrow column of instants of UTC; null for those that are not known, which are negative."""
    import pyarrow as pa

    plain = [None if one < 0 else one for one in microseconds]
    return pa.array(plain, pa.int64()).cast(pa.timestamp("us", "UTC"))
