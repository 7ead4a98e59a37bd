"""The counts of an epoch's reports by hash function and answer: a table beside that of the values.

Only protocols whose result is a distribution have them: one fit of the counts of several epochs gives their
mean curve (:mod:`ldpbeam.over_time.period`). Estimates follow from counts, so where an epoch's estimates are
withheld there are no counts.
"""

from __future__ import annotations

from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram
from ldpbeam.tables import epoch_cells, epoch_fields

DESCRIPTIONS = {
    "n": "reports about the attribute: the sum of `counts`",
    "counts": "reports with each of the g answers to hash function 0, then to function 1, and so on",
}
"""What the columns mean that the table of estimates lacks, or has for something else."""


def counts_schema() -> Any:
    """The Arrow schema of counts, the same for all collections."""
    import pyarrow as pa

    return pa.schema(
        [
            *epoch_fields(),
            pa.field("n", pa.int64(), nullable=False),
            pa.field("counts", pa.list_(pa.int64()), nullable=False),
            pa.field("pane", pa.string(), nullable=False),
        ]
    )


def counts_table(collection: Collection, histogram: EpochHistogram) -> Any:
    """Of one epoch: a row for each attribute that has a distribution."""
    import pyarrow as pa

    same = epoch_cells(collection, histogram)
    rows = [
        {**same, "attribute": name, "n": one.reports, "counts": one.counts}
        for (name, _), one in zip(collection.histograms, histogram.attributes, strict=False)
        if one.counts is not None
    ]
    return pa.Table.from_pylist(rows, counts_schema())
