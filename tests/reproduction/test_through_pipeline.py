"""What the Beam pipeline publishes has the error that is drawn directly: two points of each paper's panel."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproduction import experiment
from reproduction.paper import Cell, Row, Settings, number
from reproduction.through_pipeline import FixedPopulation, compare, published_by_pipeline

POINTS: list[tuple[str, Cell]] = [
    ("loloha", {"method": "OLOLOHA", "level": 4.0}),
    ("loloha", {"method": "L-GRR", "level": 2.0}),
    ("consistency", {"method": "L-OSUE", "level": 2.0}),
    ("consistency", {"method": "L-OUE", "level": 4.0}),
    ("allomfree", {"method": "allomfree", "level": 4.0}),
    ("allomfree", {"method": "l_soue", "level": 2.0}),
    ("microsoft", {"method": "1BitRRPM+OP(1/3)", "level": 2.0}),
    ("microsoft", {"method": "Laplace", "level": 0.5}),
]


def settings(shared_data: Path) -> Settings:
    return Settings(data=shared_data, devices=600, epochs=4, runs=5)


def compared(paper: str, cell: Cell, shared_data: Path) -> None:
    (row,) = experiment(f"pipeline:{paper}").compute(settings(shared_data), cell)
    assert number(row, "standard errors apart") < 6
    assert row["pipeline"] != row["fast"]


@pytest.mark.parametrize(("paper", "cell"), POINTS[4:5])
@pytest.mark.thorough
def test_the_pipeline_publishes_what_is_drawn(paper: str, cell: Cell, shared_data: Path) -> None:
    compared(paper, cell, shared_data)


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "cell"), POINTS)
def test_the_pipeline_publishes_what_is_drawn_in_every_paper(
    paper: str, cell: Cell, shared_data: Path
) -> None:
    compared(paper, cell, shared_data)


@pytest.mark.thorough
def test_the_pipeline_recovers_what_the_devices_hold() -> None:
    held = np.repeat(np.array([[0] * 300 + [2] * 100], np.int32), 2, axis=0)
    held[1] = 1
    keys: dict[str, Any] = {"protocol": "grr", "epsilon": 6.0}
    text = "\n".join(
        ["name: x", "domain: {size: 3}", *(f"{k}: {v}" for k, v in keys.items()), "epoch: {length: 1d}"]
    )
    raw, consistent = published_by_pipeline(text, FixedPopulation(held, 3), 3)[""]
    assert raw == pytest.approx(np.array([[0.75, 0, 0.25], [0, 1, 0]]), abs=0.03)
    assert consistent.sum(axis=1) == pytest.approx([1, 1])


@pytest.mark.parametrize(
    ("factors", "verdict"),
    [
        ([1.0, 1.0, 0.9, 1.1] * 10, "reproduced"),
        ([1.1] * 40, "differs"),  # no point is sure of it: each is one standard error apart
        ([0.9] * 40, "differs"),
        ([1.0] * 39 + [1.7], "differs"),  # one point is
    ],
)
def test_an_error_that_is_too_large_is_seen(factors: list[float], verdict: str) -> None:
    rows: list[Row] = [
        {"pipeline": f, "fast": 1.0, "noise": 0.1, "standard errors apart": abs(f - 1) / 0.1} for f in factors
    ]
    (found,) = compare("place", rows)
    assert found.verdict == verdict
