"""What an epoch says besides the rows of its values: a table beside theirs.

Of a distribution the mean and quantiles, which follow from the epoch's counts; for other protocols
`ldpbeam export --mean` and `--quantile` add up raw estimates. Of strings how they were looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.estimation.distribution import Distribution
from ldpbeam.histogram import AttributeHistogram, EpochHistogram
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.tables import epoch_cells, epoch_fields

if TYPE_CHECKING:
    from ldpbeam.estimation.prefix_walk import Walk

SHARES = (0.25, 0.5, 0.75, 0.9)
"""Of the devices, at or below the quantiles."""

WALKED = "candidates", "passed", "pass_threshold", "find_threshold"
"""What is said of each prefix length of strings: how many were tried and kept, and from which estimates on a
prefix is kept and a string found."""

DESCRIPTIONS = {
    "statistic": "`mean` or `quantile`; of strings see below",
    "share": "of a quantile, the share of the devices at or below it; null for a mean",
    "estimate": "the mean, or the quantile, in the units of the domain; of buckets the mean takes the "
    "middles, and a quantile lies as far in its bucket as the share does; null where values are labels",
    "std_error": "of a mean, for the fleet that reported; null for a quantile, whose limits need not be even",
    "ci_low": "lower end of the 95 % interval; of a quantile the lower edge of `label_low`",
    "ci_high": "its upper end; of a quantile in buckets the upper edge of `label_high`",
    "label": "of a quantile, the value that it is, as people read it; null for a mean",
    "label_low": "of a quantile, the least value that a 95 % test does not reject",
    "label_high": "the largest such value",
}
"""What the columns mean that the table of estimates lacks, or has for something else."""


def summaries_schema() -> Any:
    """The Arrow schema of summaries, the same for all collections."""
    import pyarrow as pa

    return pa.schema(
        [
            *epoch_fields(),
            pa.field("n", pa.int64(), nullable=False),
            pa.field("statistic", pa.string(), nullable=False),
            pa.field("share", pa.float64()),
            pa.field("estimate", pa.float64()),
            pa.field("std_error", pa.float64()),
            pa.field("ci_low", pa.float64()),
            pa.field("ci_high", pa.float64()),
            pa.field("label", pa.string()),
            pa.field("label_low", pa.string()),
            pa.field("label_high", pa.string()),
            pa.field("pane", pa.string(), nullable=False),
            pa.field("status", pa.string(), nullable=False),
        ]
    )


def summary_table(collection: Collection, histogram: EpochHistogram) -> Any:
    """Of one epoch: for each attribute a row with its mean and one with each quantile, or of the walk."""
    import pyarrow as pa

    same = epoch_cells(collection, histogram)
    rows = []
    for (name, domain), one in zip(collection.histograms, histogram.attributes, strict=False):
        of = {**same, "attribute": name, "n": one.reports, "status": one.status}
        rows += [{**of, **statistic} for statistic in _statistics(domain, one)]
    return pa.Table.from_pylist(rows, summaries_schema())


def _statistics(domain: Domain, one: AttributeHistogram) -> Iterator[dict[str, Any]]:
    """The columns of each row that are its own; those that are not known are left out."""
    if domain.values is None:
        yield from _walked(one.estimates.walk if one.estimates is not None else None)
        return
    distribution = one.estimates.distribution if one.estimates is not None else None
    yield {"statistic": "mean", **(_mean(domain, distribution) if distribution else {})}
    for share in SHARES:
        quantile = _quantile(domain, distribution, share) if distribution else {}
        yield {"statistic": "quantile", "share": share, **quantile}


def _walked(walk: Walk | None) -> Iterator[dict[str, Any]]:
    """How strings were looked for."""
    if walk is None:
        yield {"statistic": "not_found"}
        return
    share, error = walk.unfound
    low, high = (min(max(share + side * normal_limit(CONFIDENCE) * error, 0.0), 1.0) for side in (-1, 1))
    limits = {"ci_low": min(low, share), "ci_high": max(high, share)}
    yield {"statistic": "not_found", "estimate": share, "std_error": error, **limits}
    for level in walk.levels:
        of = {"n": level.n, "label": str(level.length)}
        numbers = level.candidates, level.passed, level.threshold, level.find_threshold
        for name, number in zip(WALKED, numbers, strict=True):
            yield {**of, "statistic": name, "estimate": float(number) if isfinite(number) else None}


def _mean(domain: Domain, distribution: Distribution) -> dict[str, float]:
    if domain.labels is not None:
        return {}
    low, high = distribution.mean_limits(CONFIDENCE)
    return {
        "estimate": mean_in_units(domain, distribution.mean),
        "std_error": distribution.mean_std_error * _length(domain),
        "ci_low": mean_in_units(domain, low),
        "ci_high": mean_in_units(domain, high),
    }


def mean_in_units(domain: Domain, place: float) -> float:
    """A mean of places 0 .. k − 1 in the units of the domain; buckets count as their middles."""
    return (place + (0.0 if _is_number(domain) else 0.5)) * _length(domain)


def _length(domain: Domain) -> float:
    return 1.0 if _is_number(domain) else 1 / float(domain.scale)


def _quantile(domain: Domain, distribution: Distribution, share: float) -> dict[str, Any]:
    place, low, high = distribution.quantile(share, CONFIDENCE)
    named = {
        name: domain.label(at) for name, at in (("label", place), ("label_low", low), ("label_high", high))
    }
    if domain.labels is not None:
        return named
    if _is_number(domain):
        return {"estimate": float(place), "ci_low": float(low), "ci_high": float(high), **named}
    length = 1 / float(domain.scale)
    below = float(distribution.cumulative[place - 1]) if place else 0.0
    inside = (share - below) / (float(distribution.cumulative[place]) - below)
    ends = {"estimate": place + inside, "ci_low": low, "ci_high": high + 1}
    return {**{name: at * length for name, at in ends.items()}, **named}


def _is_number(domain: Domain) -> bool:
    """Whether the place of a value is the number that it stands for."""
    return domain.maximum is None or domain.whole
