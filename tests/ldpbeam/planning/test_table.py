"""The table of a plan: each column has the figure that its head names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs
from ldpbeam.planning.plan import Row, rows_of
from ldpbeam.planning.table import columns
from ldpbeam.promise.statements import epsilon

FREQUENCIES, MEAN = FrequencyNeeds(100, 10**6, longitudinal=2.0), MeanNeeds(1001, 10**6, longitudinal=2.0)
OF_ERRORS = {
    "± 95 %": "half_width",
    "± 1/k": "even_half_width",
    "seen": "least_frequency",
    "change": "least_change",
    "halves": "least_half_change",
    "±7": "mean_7",
    "±30": "mean_30",
    "1 fake": "fake_device",
}


def cells(row: Row, needs: Needs) -> dict[str, str]:
    return {one.name: one.cell(7, row) for one in columns(needs)}


@pytest.mark.parametrize("needs", [FREQUENCIES, MEAN], ids=["frequencies", "mean"])
def test_each_column_of_an_error_has_the_figure_that_it_names(needs: Needs) -> None:
    """In percentage points, or units of the counter: each figure has a number of its own here."""
    row = rows_of(needs)[0]
    named: dict[str, Any] = {name: (place + 1) / 1000 for place, name in enumerate(OF_ERRORS.values())}
    shown = cells(replace(row, figures=replace(row.figures, **named)), needs)
    factor = 100 if needs is FREQUENCIES else 1
    for name, field in OF_ERRORS.items():
        if name in shown:
            assert float(shown[name]) == pytest.approx(factor * named[field])
    assert ({"± 1/k", "seen"} <= shown.keys()) == (needs is FREQUENCIES)


def test_the_other_columns() -> None:
    row = rows_of(FREQUENCIES)[0]
    figures = replace(row.figures, against_nothing=0.125, sharing=12.0, server_steps=3e4, bits=9)
    shown = cells(replace(row, figures=figures, missed={"target": "a", "bits": "b"}), FREQUENCIES)
    assert (shown[""], shown["setting"], shown["/uniform"]) == ("7", row.setting.label, "0.12")
    assert (shown["sharing"], shown["steps"], shown["bits"]) == ("12", "3e+04", "9")
    assert shown["misses"] == "target, bits"
    promise = row.figures.promise
    assert shown["ε any"].lstrip("≤") == epsilon(promise.any_loss)
    assert shown["ε inputs"] == epsilon(promise.inputs_loss)
    mean = rows_of(MEAN)[0]
    assert cells(replace(mean, figures=replace(mean.figures, of_range=0.5)), MEAN)["% range"] == "50"
