"""The benchmark of values in an order: its table in docs/accuracy.md, and further estimators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import ordered as benchmark
from ldpbeam.consistency.base import FloatArray

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "accuracy.md").read_text("utf-8")


def cell(shape: str, k: int, level: float, devices: int, rounds: int = benchmark.ROUNDS) -> benchmark.Cell:
    truth = benchmark.shapes(k, np.random.default_rng([1, k]))[shape]
    return benchmark.measured(shape, truth, level, devices, rounds, 1)


def test_errors_are_those_of_the_fleets_own_histogram(monkeypatch: pytest.MonkeyPatch) -> None:
    """One estimator knows the truth, another moves a tenth of the devices by one place of eight."""

    def exact(held: FloatArray, _: float, __: np.random.Generator) -> dict[str, FloatArray]:
        return {"exact": held / held.sum()}

    def moved(held: FloatArray, _: float, __: np.random.Generator) -> dict[str, FloatArray]:
        wrong = np.zeros(held.size)
        wrong[2:4] = -0.1, 0.1
        return {"moved": held / held.sum() + wrong}

    monkeypatch.setattr(benchmark, "ESTIMATORS", (exact, moved))
    error = cell("saw", 8, 1.0, 1000).error
    assert [error["exact", kind] for kind in benchmark.ERRORS] == [0, 0, 0]
    assert [error["moved", kind] for kind in benchmark.ERRORS] == pytest.approx([0.1 / 8, 0.1, 0.02 / 8])


def test_a_further_estimator_changes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(held: FloatArray, _: float, draw: np.random.Generator) -> dict[str, FloatArray]:
        return {"other": draw.dirichlet(np.ones(held.size))}

    alone = cell("beta", 64, 1.0, 1000)
    monkeypatch.setattr(benchmark, "ESTIMATORS", (*benchmark.ESTIMATORS, other))
    both = cell("beta", 64, 1.0, 1000)
    assert {key: both.error[key] for key in alone.error} == alone.error
    assert both.error["other", "W1"] > 0
    assert both.error["interval", "W1"] < both.error["bayes", "W1"]
    assert "W1 `other`" in benchmark.table([both], ("k",), lambda _: ("64",))[0]


def test_a_loss_is_against_the_better_one_of_the_others() -> None:
    error = {
        (name, kind): value
        for name, value in (("norm_sub", 1.0), ("bayes", 2.0), ("ordered", 1.5))
        for kind in benchmark.ERRORS
    }
    lines = benchmark.losses([benchmark.Cell(64, "saw", 1.0, 1000, error)], "ordered")
    assert lines[-1] == "| MSE | 100 % | 1.50: saw, k = 64, ε = 1, 1,000 |"
    error |= {("ordered", kind): 1.05 for kind in benchmark.ERRORS}
    lines = benchmark.losses([benchmark.Cell(64, "saw", 1.0, 1000, error)], "ordered")
    assert lines[-1] == "| MSE | 0 % | – |"


def test_data_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(benchmark.real(tmp_path, (64,))) == []
    assert capsys.readouterr().err.count("is left out") == 3


@pytest.mark.thorough
def test_the_page_has_a_row_of_a_histogram_as_it_comes_out() -> None:
    """Uniform, drawn anew with the benchmark's seed: only libm may differ, so the last digit."""
    some = [
        cell("uniform", k, level, devices, benchmark.FULL_ROUNDS)
        for k in benchmark.FULL_SIZES
        for level in benchmark.LEVELS
        for devices in benchmark.DEVICES
    ]
    head, rule, row = benchmark.table(some, ("histogram",), lambda one: (one.shape,))
    assert f"{head}\n{rule}\n" in PAGE
    (printed,) = [line for line in PAGE.splitlines() if line.startswith("| uniform | 96 ")]
    numbers = [[float(text) for text in line.split("|")[2:-1]] for line in (row, printed)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.011, rel=0.001)


def test_runs_are_reported_as_often_as_the_channel_says() -> None:
    """Sums over fleets of one value: 64 functions and 4 stretches, each within 6.5 deviations (2e-8)."""
    of = benchmark.estimator_of("olh", 64, epsilon=1.0)
    held = np.zeros(64, np.int64)
    held[37] = 640_000
    counts = benchmark.reported_stretches(held, of, np.random.default_rng(1)).reshape(64, -1)
    inside = (of.family.bounds()[:, :-1] <= 37) & (of.family.bounds()[:, 1:] > 37)
    own, other = map(float, of.symbol)
    chances = np.where(inside, own, other) / 64
    assert np.all(np.abs(counts - 640_000 * chances) < 6.5 * np.sqrt(640_000 * chances))
    wrong = np.where(inside, own + 0.05, other) / 64
    assert not np.all(np.abs(counts - 640_000 * wrong) < 6.5 * np.sqrt(640_000 * wrong))


@pytest.mark.thorough
def test_tables_of_two_rounds_and_of_coverage_have_a_row_for_each_histogram(tmp_path: Path) -> None:
    rows = benchmark.two_rounds(1, 1)
    assert len(rows) == 2 + 9 + 1
    assert float(rows[-1].split("|")[5]) > 2
    rows = benchmark.coverage(tmp_path, 1, 2)
    assert len(rows) == 2 + 4 * 9 + 2
