"""The accuracy benchmark accepts the real estimator and refuses wrong ones, on made-up data."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldpbeam.estimates
from benchmarks import accuracy
from ldpbeam.collection.collection import Collection
from ldpbeam.estimates import Estimates
from ldpbeam.support import SupportProbabilities
from tests.narrow import present

pytest.importorskip("scipy")

DATA = accuracy.DataSet("made", "made.csv", "csv:FILE:E1..E6", 12, rounds=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """1,500 devices over six epochs, 12 values, one cell in ten empty: the device is absent."""
    rng = np.random.Generator(np.random.Philox(3))
    values = np.minimum(rng.geometric(0.3, (1500, 6)), 12)
    values[:12] = np.arange(1, 13)[:, None]  # every value occurs
    cells = np.where(rng.random(values.shape) < 0.1, "", values.astype(str))
    lines = [",".join(f"E{e}" for e in range(1, 7)), *(",".join(row) for row in cells)]
    (tmp_path / "made.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two protocols are enough here."""
    kept = [p for p in accuracy.PROTOCOLS if p[0] in {"LOLOHA linear", "L-OSUE"}]
    monkeypatch.setattr(accuracy, "PROTOCOLS", tuple(kept))


def check(folder: Path, *more: str) -> int:
    return accuracy.main(["--data", str(folder), *more], [DATA])


def wrong(change: Callable[[SupportProbabilities], SupportProbabilities]) -> Callable[..., object]:
    """The estimator with other probabilities than the devices have."""
    real = ldpbeam.estimates.estimate

    def estimate(
        support: Any, n: Any, probabilities: SupportProbabilities, *more: Any, **named: Any
    ) -> Estimates:
        return real(support, n, change(probabilities), *more, **named)

    return estimate


@pytest.mark.thorough
@pytest.mark.usefixtures("some")
def test_the_estimator_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(folder) == 0
    printed = capsys.readouterr().out
    assert printed.count("\nholds: ") == 6
    assert "FAILS" not in printed
    assert "answer 1/k" in printed


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
@pytest.mark.thorough
def test_other_off_by_a_tenth_fails(
    factor: Fraction,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    planted = wrong(lambda p: replace(p, other=p.other * factor))
    monkeypatch.setattr(ldpbeam.estimates, "estimate", planted)
    assert check(folder) == 1
    lines = capsys.readouterr().out.splitlines()
    failing = [text for text in lines if text.startswith("FAILS")]
    assert any("MSE / variance in the row's band" in text for text in failing)
    assert any("coverage" in text for text in failing)


def published(errors: np.ndarray, margin: float = 1.96) -> accuracy.Published:
    """Errors in standard deviations, as if published for L-GRR over two values."""
    truth = np.full(errors.shape, 0.5)
    support = present(collection().protocol.estimator.support)
    own, other = float(support.own), float(support.other)
    n = np.full(len(errors), 1000)
    sd = np.sqrt(accuracy.theoretical_variance(truth, n[:, None], own, other))
    estimate = truth + errors * sd
    low, high = estimate - margin * sd, estimate + margin * sd
    return accuracy.Published(n, truth, estimate, sd, low, high, estimate, True)


def collection() -> Collection:
    return accuracy.make_collection(replace(DATA, size=50), *accuracy.PROTOCOLS[-1][1:])


def row(errors: np.ndarray, margin: float = 1.96) -> accuracy.Row:
    return accuracy.measure("made", replace(DATA, size=50), collection(), [published(errors, margin)], 0)


def failing(measured: accuracy.Row, peak: float = 1.0) -> list[str]:
    return [text for holds, text in accuracy.requirements([measured], peak) if not holds]


def normal(*shape: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(5)).standard_normal(shape)


def test_independent_errors_count_fully_and_pass() -> None:
    measured = row(normal(60, 50))
    assert failing(measured) == []
    assert measured.effective[0] > 2000
    assert measured.effective[1] > 2000


@pytest.mark.parametrize("axis", [0, 1])
def test_errors_that_repeat_count_less_but_not_without_limit(axis: int) -> None:
    shape = (1, 50) if axis == 0 else (60, 1)
    measured = row(np.broadcast_to(normal(*shape), (60, 50)))
    assert accuracy.clustered(np.broadcast_to(normal(1, *shape), (1, 60, 50))) > 5 * 3000
    floor = 3000 / (accuracy.CROSS_VALUE * (1 + 59 * accuracy.CROSS_EPOCH**2))
    assert measured.effective == pytest.approx((floor, floor))
    assert measured.ratio_band[0] < measured.ratio_nominal[0]
    assert measured.coverage_band[0] < measured.coverage_nominal[0]


@pytest.mark.parametrize("margin", [1.7, 2.3])
def test_intervals_of_the_wrong_length_fail(margin: float) -> None:
    assert any("coverage" in text for text in failing(row(normal(60, 50), margin)))


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_a_wrong_standard_deviation_fails(scale: float) -> None:
    found = failing(row(scale * normal(60, 50)))
    assert any(text.startswith("MSE / variance in 0.93..1.07") for text in found)


def test_lost_reports_and_a_memory_hog_fail() -> None:
    measured = replace(row(normal(60, 50)), complete=False)
    found = failing(measured, peak=5.0)
    assert [text.split()[0] for text in found] == ["every", "peak"]


def test_a_wald_interval_that_covers_where_counts_are_few_fails() -> None:
    measured = replace(row(normal(60, 50)), support=7.0)
    assert any("Wald" in text for text in failing(measured))
    assert failing(replace(measured, wald=0.8)) == []


def test_absent_data_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path) == 2
    assert "made is skipped" in capsys.readouterr().out
    assert check(tmp_path, "--allow-missing") == 0
