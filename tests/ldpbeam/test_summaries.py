"""Mean and quantiles in the units of each kind of domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldpbeam
from ldpbeam.estimates import Estimates
from ldpbeam.estimation.distribution import Distribution
from ldpbeam.histogram import AttributeHistogram, EpochHistogram
from ldpbeam.summaries import DESCRIPTIONS, SHARES, summaries_schema, summary_table

_SHARES = np.array([0.2, 0.6, 0.95, 1.0])
SHAPE = Distribution(50, _SHARES, _SHARES, np.array([0.05, 0.1, 0.1, 0.0]), 1.25, 0.1)
"""Four values: of the shares .25, .5, .75 and .9 the places are 1, 1, 2 and 2."""


def rows(domain: str) -> list[dict[str, Any]]:
    text = f"{{name: a, domain: {domain}, protocol: olh, hash_family: interval, epsilon: 1, "
    text += "epoch: {length: 1d}}"
    nothing = np.zeros(4, np.int64)
    estimates = Estimates(nothing + 50, nothing, np.full((6, 4), np.nan), SHAPE)
    collection = ldpbeam.parse_collection(text)
    histogram = EpochHistogram(collection.digest, 3, 50, (AttributeHistogram(50, nothing, estimates),))
    found: list[dict[str, Any]] = summary_table(collection, histogram).to_pylist()
    assert [row["share"] for row in found] == [None, *SHARES]
    return found


@pytest.mark.parametrize("domain", ["{size: 4, ordered: true}", "{range: {max: 3, buckets: 4}}"])
def test_numbers_are_themselves(domain: str) -> None:
    mean, first, median, *_ = rows(domain)
    assert (mean["estimate"], mean["std_error"]) == pytest.approx((1.25, 0.1))
    assert (mean["ci_low"], mean["ci_high"]) == pytest.approx((1.25 - 0.196, 1.25 + 0.196), abs=1e-4)
    assert (first["estimate"], median["estimate"]) == (1, 1)
    assert [median[name] for name in ("ci_low", "ci_high", "label", "label_low", "label_high")] == [
        1, 2, "1", "1", "2",
    ]  # fmt: skip


def test_buckets_have_middles_and_edges() -> None:
    mean, first, median, third, _ = rows("{range: {max: 40, buckets: 4}}")
    assert (mean["estimate"], mean["std_error"]) == pytest.approx((17.5, 1.0))
    assert mean["ci_low"] == pytest.approx(17.5 - 1.96, abs=1e-3)
    # A quarter lies (0.25 − 0.2)/0.4 of a bucket beyond 10, and so on.
    assert [row["estimate"] for row in (first, median, third)] == pytest.approx(
        [11.25, 17.5, 20 + 10 * 0.15 / 0.35]
    )
    assert (median["ci_low"], median["ci_high"]) == (10, 30)
    assert (median["label"], median["label_high"]) == ("[10, 20)", "[20, 30)")


def test_labels_have_quantiles_and_no_numbers() -> None:
    mean, _, median, *_ = rows("{labels: [never, seldom, often, daily], ordered: true}")
    numbers = ("estimate", "std_error", "ci_low", "ci_high")
    assert {row[name] for row in (mean, median) for name in numbers} == {None}
    assert [median[name] for name in ("label", "label_low", "label_high")] == ["seldom", "seldom", "often"]


def test_every_further_column_is_described() -> None:
    names = [field.name for field in summaries_schema()]
    assert set(DESCRIPTIONS) <= set(names)
