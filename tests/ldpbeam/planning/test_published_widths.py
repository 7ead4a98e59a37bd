"""The interval that `plan` speaks of is the one that a run publishes: half-widths, planned and published."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ldpbeam
from ldpbeam.arrays import Ints
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.file import parse_collection
from ldpbeam.planning.collection_text import Particulars, collection_text
from ldpbeam.planning.needs import FrequencyNeeds, zipf
from ldpbeam.planning.plan import make_plan
from tests.narrow import present

EPOCHS = 200
WITHIN = 0.03

# (values, devices, epochs planned, levels, whether all values are alike)
NEEDS = [
    pytest.param(*need, id=f"k={need[0]} n={need[1]} {need[3]} {'even' if need[4] else 'ranked'}")
    for need in [
        # Few counts.
        (50, 100, 1, {"longitudinal": 8.0}, False),
        (9, 500, 3, {"longitudinal": 12.0}, True),
        (24, 400, 8, {"lifetime": 8.0}, False),
        (360, 1000, 1, {"longitudinal": 9.0}, False),
        # Many.
        (16, 5000, 10, {"longitudinal": 2.0, "first": 1.0}, True),
        (5, 2000, 365, {"longitudinal": 1.0}, False),
        (30, 6000, 12, {"lifetime": 3.0}, False),
        (200, 3000, 5, {"inputs_cap": 6.0}, False),
        (8, 1500, 4, {"longitudinal": 4.0, "bits": 8}, False),
        (33, 900, 2, {"first": 1.5}, False),
        (500, 5000, 1, {"longitudinal": 4.0}, False),
        (6, 1000, 7, {"longitudinal": 6.0, "first": 2.0}, False),
    ]
]


def people(values: int, devices: int, *, even: bool) -> Ints:
    """A value for each device: as near to the frequencies as whole devices are, in an order of no meaning."""
    shares = np.full(values, 1 / values) if even else zipf(values)
    ends = np.rint(np.cumsum(shares) * devices).astype(np.int64)
    held = np.repeat(np.arange(values), np.diff(ends, prepend=0))
    return np.random.default_rng(1).permutation(held)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("values", "devices", "epochs", "limits", "even"), NEEDS)
def test_planned_half_widths_are_those_that_are_published(
    values: int, devices: int, epochs: int, limits: dict[str, float], even: bool
) -> None:
    held = people(values, devices, even=even)
    shares = np.bincount(held, minlength=values) / devices
    needs = FrequencyNeeds(values, devices, epochs, frequencies=tuple(shares.tolist()), **limits)  # type: ignore[arg-type]
    row = present(make_plan(needs).recommended)
    text = collection_text(row, needs, Particulars("NAME", Domain(values), "1d", 0))
    text = re.sub(r"min_reports: \d+", "min_reports: 1", text)
    widths = np.zeros((EPOCHS, values))
    for turn in range(EPOCHS):
        # Ties are split by the digest, the epoch and the value: another name splits them anew.
        agreed = parse_collection(text.replace("NAME", f"x{turn}"))
        reports = ldpbeam.simulate(agreed, ldpbeam.Index(held), seed=turn)
        found = present(ldpbeam.result_of_epoch(agreed, 0, [reports]).attributes[0].estimates)
        widths[turn] = (found.high - found.low) / 2
    published = widths.mean(axis=0)
    if even:
        assert row.figures.even_half_width == pytest.approx(published.mean(), rel=WITHIN)
    else:
        most = shares == row.figures.widest_frequency
        assert row.figures.half_width == pytest.approx(published[most].mean(), rel=WITHIN)
        assert row.figures.half_width >= published.max() * (1 - WITHIN)
