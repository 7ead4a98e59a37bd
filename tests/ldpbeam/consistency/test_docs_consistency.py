"""Every number and flag in the tables of docs/consistency.md is recomputed."""

from pathlib import Path

import numpy as np

from ldpbeam.consistency import METHODS, consistent
from ldpbeam.consistency.base import Noise
from ldpbeam.consistency.clip import threshold

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "consistency.md").read_text(encoding="utf-8")
PROSE = " ".join(PAGE.split())

EXAMPLE = Noise(2000, 0.5, 0.25, False)


def table(first_header: str, second_header: str) -> dict[str, list[str]]:
    """Rows of the table with these headers: method name to the other cells."""
    lines = iter(PAGE.splitlines())
    rows: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith(f"| {first_header} | {second_header} |"):
            next(lines)
            break
    for line in lines:
        if not line.startswith("|"):
            break
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[name.strip("`")] = cells
    return rows


def test_guarantees() -> None:
    rows = table("method", "≥ 0")

    assert list(rows) == list(METHODS)
    for name, (non_negative, sums_to_one, *_) in rows.items():
        assert (non_negative == "yes") == METHODS[name].non_negative
        assert (sums_to_one == "yes") == METHODS[name].sums_to_one


def test_worked_example() -> None:
    rows = table("method", "a")
    estimates = np.array([float(cell) for cell in rows["none"][:-1]])

    assert list(rows) == list(METHODS)
    for name, cells in rows.items():
        result = consistent(name, estimates, EXAMPLE)
        computed = [f"{value + 0.0:.4f}" for value in [*result, result.sum()]]
        assert computed == cells, name


def test_numbers_in_the_text() -> None:
    assert f"sqrt(V\\*) = {np.sqrt(EXAMPLE.floor_variance):.4f}" in PROSE
    assert f"reaches {threshold(6, EXAMPLE):.4f}" in PROSE
