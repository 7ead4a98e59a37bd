"""Every number and flag in the tables of docs/consistency.md is recomputed."""

from pathlib import Path

import numpy as np
import pytest

from ldpbeam.consistency import METHODS, consistent
from ldpbeam.consistency.base import Noise
from ldpbeam.consistency.clip import threshold

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "consistency.md").read_text(encoding="utf-8")
PROSE = " ".join(PAGE.split())

EXAMPLE = Noise(2000, 0.5, 0.25, False)
LARGE = Noise(20_000, 0.5, 0.25, False)
ROUNDS = 40


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


def simulate() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """True frequencies and, for every method, the errors of each round."""
    true = 1.0 / np.arange(1, 201) ** 1.5
    true /= true.sum()
    random = np.random.default_rng(2024)
    errors = {name: np.empty((ROUNDS, true.size)) for name in METHODS}
    for turn in range(ROUNDS):
        held = random.multinomial(LARGE.n, true)
        support = random.binomial(held, LARGE.own) + random.binomial(LARGE.n - held, LARGE.other)
        estimates = (support / LARGE.n - LARGE.other) / LARGE.gap
        for name, error in errors.items():
            error[turn] = consistent(name, estimates, LARGE) - true
    return true, errors


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


@pytest.mark.thorough
def test_numbers_in_the_text() -> None:
    assert f"sqrt(V\\*) = {np.sqrt(EXAMPLE.floor_variance):.4f}" in PROSE
    assert f"reaches {threshold(6, EXAMPLE):.4f}" in PROSE
    assert f"sqrt(V\\*) = {np.sqrt(LARGE.floor_variance):.4f}" in PROSE
    true, _ = simulate()
    assert f"(f = {true[0]:.3f})" in PROSE
    assert true[100] < 0.0004
    assert (
        f"uniform answer has an MSE of {np.mean((true - 1 / 200) ** 2):.1e}".replace("e-04", "e-4") in PROSE
    )


@pytest.mark.thorough
def test_simulated_errors() -> None:
    """The same seed: only libm may differ, so 1 % and the last digit are allowed."""
    _, errors = simulate()
    rows = table("method", "MSE")

    assert list(rows) == list(METHODS)
    for name, (mse, top, rare) in rows.items():
        assert float(mse) == pytest.approx(np.mean(errors[name] ** 2), rel=0.01)
        assert float(top) == pytest.approx(errors[name][:, 0].mean(), rel=0.01, abs=1e-4)
        assert float(rare) == pytest.approx(errors[name][:, 100:].mean(), rel=0.01, abs=1e-5)
