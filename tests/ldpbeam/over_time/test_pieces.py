"""Series in memory and in files, in few pieces and in many: the same numbers, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ldpbeam
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.over_time import series as series_module
from ldpbeam.over_time.compare import together
from ldpbeam.over_time.covariance import DrawnAnew, MemoErrors, errors_of
from ldpbeam.over_time.results import ResultsFolder, histories
from ldpbeam.over_time.rollup import every, roll_up
from ldpbeam.over_time.series import Series, series_of
from ldpbeam.over_time.weighted_sums import Combined, combined, difference, mean, trend
from ldpbeam.sums import Groups
from ldpbeam.sums.tables import answers

K, EPOCHS = 23, np.array([0, 1, 2, 4, 5, 9, 10])

_EPOCH = "epoch: {length: 1d, origin: 2026-01-05T00:00:00Z}\n"
_TWO = "epsilon_longitudinal: 4\nepsilon_first: 2\n"
COLLECTIONS = {
    "direct": f"protocol: l_grr\n{_TWO}",
    "hashed": f"protocol: loloha\n{_TWO}",
    "in few epochs": f"protocol: l_osue\n{_TWO}participation: {{reports: 3, of: 12}}\n",
    "no memo": "protocol: oue\nepsilon: 1\n",
}


def collection_of(name: str) -> Collection:
    return parse_collection(f"name: pieces\ndomain: {{size: {K}}}\n{COLLECTIONS[name]}{_EPOCH}")


def made_up(seed: int = 3, epochs: np.ndarray = EPOCHS, k: int = K) -> Series:
    """Estimates with gaps: an epoch without any, and single ones that are missing."""
    rng = np.random.default_rng(seed)
    shape = len(epochs), k
    estimate = rng.normal(1 / k, 0.05, shape)
    estimate[2] = np.nan
    estimate[4, 1] = estimate[0, -1] = np.nan
    return Series(epochs, rng.integers(900, 1100, shape), estimate, rng.uniform(0.02, 0.05, shape))


def in_file(series: Series) -> Series:
    rows = zip(series.n, series.estimate, series.std_error, strict=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series_module, "HELD", 0)
        made = series_of(series.epochs, rows, series.width)
    assert isinstance(made.estimate, np.memmap)
    return made


QUESTIONS: dict[str, Callable[[Series, MemoErrors | None, DrawnAnew | None], Combined]] = {
    "mean": mean,
    "trend": trend,
    "difference": lambda series, errors, rate: difference(
        series, np.arange(7) > 4, np.arange(7) < 4, errors, rate
    ),
    "weights": lambda series, errors, rate: combined(series, np.linspace(-1, 2, 7), errors, rate),
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", list(COLLECTIONS))
@pytest.mark.parametrize("question", list(QUESTIONS))
def test_sums_over_epochs_are_the_same_in_pieces(
    name: str, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors, series, ask = errors_of(collection_of(name))[0], made_up(), QUESTIONS[question]
    for rate in (None, DrawnAnew(0.0, 0.3), DrawnAnew(0.2, 0.2)):
        whole = ask(series, errors, rate)
        assert np.isfinite(whole.std_error).any()
        for few in (1, 20, 70):
            with monkeypatch.context() as patch:
                patch.setattr(series_module, "CELLS", few)
                for made in (series, in_file(series)):
                    found = ask(made, errors, rate)
                    for part in ("estimate", "std_error", "std_error_floor", "epochs"):
                        np.testing.assert_array_equal(getattr(found, part), getattr(whole, part), part)


def test_two_runs_in_files_are_joined() -> None:
    first, second = made_up(1, np.arange(0, 14, 2)), made_up(2, np.arange(1, 15, 2))
    wanted, found = (together(*sides) for sides in ((first, second), (in_file(first), in_file(second))))
    assert wanted is not None and found is not None
    assert found.epochs.tolist() == list(range(14))
    for name in ("n", "estimate", "std_error"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
        np.testing.assert_array_equal(getattr(found.rows(found.epochs % 2 == 0), name), getattr(first, name))
    assert together(found, first) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, Path]:
    """A folder of results of seven epochs; one has fewer values than the others, and the last one too."""
    import pyarrow.parquet as pq

    names = ", ".join(f"value-{place}" for place in range(K))
    collection = parse_collection(
        f"name: pieces\ndomain: {{labels: [{names}]}}\n{COLLECTIONS['direct']}{_EPOCH}"
    )
    fleet = ldpbeam.Fleet(collection, devices=2000, seed=5)
    held = np.arange(2000) % K
    table = ldpbeam.estimate(collection, [fleet.report(ldpbeam.Index(held)) for _ in range(7)])
    folder = tmp_path_factory.mktemp("results")
    epochs = table["epoch"].to_numpy()
    for epoch in range(7):
        rows = np.flatnonzero(epochs == epoch)
        pq.write_table(table.take(rows[2:] if epoch in (3, 6) else rows), folder / f"{epoch}.parquet")
    return collection, folder


@pytest.mark.parametrize("held", [0, 10_000])
def test_a_folder_is_read_alike_into_memory_and_into_a_file(
    run: tuple[Collection, Path], held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection, folder = run
    (wanted,) = histories(ldpbeam.read(folder))
    monkeypatch.setattr(series_module, "HELD", held)
    (found,) = ResultsFolder.of(folder).histories()
    assert isinstance(found.series.estimate, np.memmap) == (held == 0)
    assert found.labels == wanted.labels == tuple(f"value-{place}" for place in range(K))
    np.testing.assert_array_equal(found.starts, wanted.starts)
    monkeypatch.setattr(series_module, "CELLS", 50)
    errors = errors_of(collection)[0]
    periods = [list(roll_up(one, every(3), errors)) for one in (wanted, found)]
    for one, other in zip(*periods, strict=True):
        np.testing.assert_array_equal(one.n, other.n)
        np.testing.assert_array_equal(one.mean.std_error, other.mean.std_error)
    assert periods[0][1].mean.epochs.tolist() == [2, 2] + [3] * (K - 2)


def test_reports_of_an_epoch_without_an_estimate_are_not_behind_a_mean(run: tuple[Collection, Path]) -> None:
    collection, folder = run
    (history,) = ResultsFolder.of(folder).histories()
    history.series.estimate[1, 4] = np.nan
    (period,) = roll_up(history, every(7), errors_of(collection)[0])
    assert period.n.tolist() == [5 * 2000] * 2 + [7 * 2000] * 2 + [6 * 2000] + [7 * 2000] * (K - 5)


@pytest.mark.parametrize("rate", [None, DrawnAnew(0.1, 0.4)])
def test_sums_of_values_are_the_same_in_blocks(
    run: tuple[Collection, Path], rate: DrawnAnew | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums are products of matrices, whose last bit depends on how many rows there are."""
    (history,) = ResultsFolder.of(run[1]).histories()
    question = Groups({"few": [0, 1, 2], "rest": list(range(3, K))})
    whole = answers(run[0], history, question, every(4), rate)
    monkeypatch.setattr(series_module, "CELLS", 2 * K)
    found = answers(run[0], history, question, every(4), rate)
    for name in ("estimate", "std_error", "std_error_floor", "n", "ci_low_all"):
        assert found[name].to_pylist() == pytest.approx(whole[name].to_pylist(), rel=1e-12), name
