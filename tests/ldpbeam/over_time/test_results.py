"""Results read back: the newest revision of each epoch, series, roll-ups, smoothing, and what changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import ldpbeam
from ldpbeam.collection.collection import Collection
from ldpbeam.over_time import DrawnAnew, Series, errors_of, mean
from ldpbeam.over_time import results as results_module
from ldpbeam.over_time import smooth as smoothing
from ldpbeam.over_time.compare import compare_epochs, compare_runs, together
from ldpbeam.over_time.results import History, Part, ResultsFolder, histories
from ldpbeam.over_time.rollup import CALENDAR, every, roll_up
from ldpbeam.over_time.significance import adjusted, normal_limit, p_values
from ldpbeam.over_time.smooth import smooth
from tests.narrow import of_kind

EPOCHS = 40


@pytest.fixture(scope="module")
def collection() -> Collection:
    return ldpbeam.load_collection("examples/first_choice.yaml")


@pytest.fixture(scope="module")
def results(collection: Collection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 days, of which day 3 is missing; day 5 has three revisions."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "estimates").mkdir()
    for epoch in range(EPOCHS):
        if epoch == 3:
            continue
        table = estimates(collection, epoch)
        for revision in range(3 if epoch == 5 else 1):
            one = table.set_column(6, table.schema.field(6), pa.array([revision] * 4, pa.int32()))
            if epoch == 5 and revision < 2:
                one = one.set_column(12, "estimate", pa.array([9.0] * 4))
            pq.write_table(one, folder / "estimates" / f"first-epoch-{epoch:06d}-r{revision:03d}.parquet")
    return folder


def estimates(collection: Collection, epoch: int) -> Any:
    reports = ldpbeam.Fleet(collection, 800, seed=epoch).report(ldpbeam.Index(np.arange(800) % 4), epoch)
    return ldpbeam.estimate(collection, reports)


def only(table: Any) -> History:
    (found,) = histories(table)
    return found


def test_the_newest_revision_of_each_epoch(results: Path, collection: Collection, tmp_path: Path) -> None:
    table = ldpbeam.read(results)
    assert table.num_rows == 4 * (EPOCHS - 1)
    assert table.column_names == estimates(collection, 0).column_names
    assert table["epoch"].to_pylist() == [e for e in range(EPOCHS) if e != 3 for _ in range(4)]
    assert table["value"].to_pylist() == [0, 1, 2, 3] * (EPOCHS - 1)
    fifth = table.filter(pa.compute.equal(table["epoch"], 5))
    assert fifth["estimate"].to_pylist() == estimates(collection, 5)["estimate"].to_pylist()
    assert fifth["revision"].to_pylist() == [2] * 4
    assert str(ldpbeam.read(str(results)).schema) == str(table.schema)
    # latest/ is read where there is one: what was withheld afterwards is not in it.
    (tmp_path / "latest").mkdir()
    (tmp_path / "estimates").mkdir()
    pq.write_table(estimates(collection, 7), tmp_path / "latest" / "a.parquet")
    pq.write_table(estimates(collection, 8), tmp_path / "estimates" / "b.parquet")
    assert set(ldpbeam.read(tmp_path)["epoch"].to_pylist()) == {7}
    # A folder of tables will do, also of an earlier version.
    old = estimates(collection, 9).drop_columns(["version", "epoch_end", "std_error_floor"])
    pq.write_table(old, tmp_path / "latest" / "b.parquet")
    both = ldpbeam.read(tmp_path / "latest")
    assert both.filter(pa.compute.equal(both["epoch"], 9))["std_error_floor"].null_count == 4
    (tmp_path / "latest" / "a.parquet").unlink()
    alone = ldpbeam.read(tmp_path)
    assert alone["version"].null_count == alone["epoch_end"].null_count == 4
    assert only(alone).ends.tolist() == [-1]


def test_what_holds_no_estimates_is_refused(tmp_path: Path) -> None:
    makes: tuple[tuple[Callable[[], Path], str], ...] = (
        (lambda: tmp_path / "none", "does not exist"),
        (lambda: tmp_path, "holds no estimates"),
        (lambda: damaged(tmp_path, b"PAR1"), "is cut short or damaged"),
        (lambda: foreign(tmp_path), "has no column"),
    )
    for make, why in makes:
        with pytest.raises(ldpbeam.LdpError, match=why) as caught:
            ldpbeam.read(make())
        assert caught.value.code == "E-USAGE-RESULTS"
        assert caught.value.exit_code == 2


def damaged(folder: Path, content: bytes) -> Path:
    (folder / "a.parquet").write_bytes(content)
    return folder


def foreign(folder: Path) -> Path:
    pq.write_table(pa.table({"epoch": [1]}), folder / "a.parquet")
    return folder


def test_series_have_gaps_where_nothing_is_known(results: Path) -> None:
    table = ldpbeam.read(results)
    history = only(table)
    assert history.key == ("first_choice", 1, history.key.digest, "")
    assert history.labels == ("red", "green", "blue", "none of these")
    series = of_kind(Series, history.series)
    assert series.epochs.tolist() == [e for e in range(EPOCHS) if e != 3]
    assert (series.n == 800).all()
    shaped = np.asarray(table["estimate"]).reshape(-1, 4)
    assert (series.estimate == shaped).all()
    # The order of rows does not matter, and a row that is missing leaves one hole.
    rows = np.random.default_rng(1).permutation(table.num_rows)
    mixed = of_kind(Series, only(table.take(rows[rows != 6])).series)
    assert np.isnan(mixed.estimate[1, 2])
    assert np.nansum(np.abs(mixed.estimate - shaped)) == 0
    assert np.isnan(mixed.estimate).sum() == 1
    assert not history.provisional.any()
    early = table.set_column(table.column_names.index("pane"), "pane", pa.array(["early"] * table.num_rows))
    assert only(early).provisional.all()


def same(one: History, other: History) -> bool:
    alike = (one.key, one.labels) == (other.key, other.labels)
    arrays = ("epochs", "n", "estimate", "std_error")
    return alike and all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True)
        for a, b, names in (
            (one.series, other.series, arrays),
            (one, other, ("values", "starts", "ends", "provisional")),
        )
        for name in names
    )


def test_only_the_parts_that_are_chosen_are_read(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain = results_module._rows_of

    def watched(part: Part, *more: Any) -> Any:
        read.append(part.epoch)
        yield from plain(part, *more)

    monkeypatch.setattr(results_module, "_rows_of", watched)
    (found,) = ResultsFolder.of(results).histories(lambda parts: [p for p in parts if p.epoch in {2, 30}])
    assert read == [2, 30]
    assert found.series.epochs.tolist() == [2, 30]
    assert all(part.usable for part in ResultsFolder.of(results).parts)
    # Tables come some thousands of rows at a time, whatever a file holds.
    monkeypatch.setattr(results_module, "_ROWS", 3)
    assert [t.num_rows for t in ResultsFolder.of(results).tables(ResultsFolder.of(results).parts[:2])] == [
        3,
        1,
        3,
        1,
    ]


def test_whether_there_is_an_estimate_is_known_without_reading(
    collection: Collection, tmp_path: Path
) -> None:
    table = estimates(collection, 1)
    for name in ("estimate", "std_error"):
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(name), pa.nulls(4, pa.float64()))
    pq.write_table(table, tmp_path / "none.parquet")
    pq.write_table(estimates(collection, 2), tmp_path / "some.parquet")
    assert [part.usable for part in ResultsFolder.of(tmp_path).parts] == [False, True]
    pq.write_table(estimates(collection, 2), tmp_path / "some.parquet", write_statistics=False)
    assert [part.usable for part in ResultsFolder.of(tmp_path).parts] == [False, None]


def test_roll_ups_by_number_week_and_month(results: Path, collection: Collection) -> None:
    history = only(ldpbeam.read(results))
    errors = errors_of(collection)[0]
    sevens = list(roll_up(history, every(7), errors))
    assert [(p.first, p.last, int(p.mean.epochs[0])) for p in sevens] == [
        (0, 6, 6), (7, 13, 7), (14, 20, 7), (21, 27, 7), (28, 34, 7), (35, 39, 5)
    ]  # fmt: skip
    assert sevens[0].n.tolist() == [4800] * 4
    expected = mean(history.series.rows(slice(6, 13)), errors)
    assert (sevens[1].mean.estimate == expected.estimate).all()
    assert (sevens[1].mean.std_error == expected.std_error).all()
    stated = list(roll_up(history, every(7), errors, DrawnAnew(1.0, 1.0)))
    assert (stated[1].mean.std_error < expected.std_error).all()
    kinds: tuple[tuple[str, Callable[[datetime], object]], ...] = (
        ("day", lambda d: d.date()),
        ("week", lambda d: d.isocalendar()[:2]),
        ("month", lambda d: d.month),
    )
    for name, of in kinds:
        periods = list(roll_up(history, CALENDAR[name], errors))
        days = [datetime.fromtimestamp(int(us) / 1e6, UTC) for us in history.starts]
        assert len(periods) == len({of(day) for day in days})
        for period in periods:
            inside = [day for day, row in zip(days, period.rows.tolist(), strict=True) if row]
            assert len({of(day) for day in inside}) == 1
            assert period.start == int(inside[0].timestamp() * 1e6)
            assert period.end == int(inside[-1].timestamp() * 1e6) + 86_400_000_000


@pytest.mark.parametrize("speed", [0.0, 0.05, 1.0])
def test_the_smoother_is_the_best_linear_one(
    speed: float, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without jumps: the conditional mean from whole covariance matrices; a gap, and a missing estimate."""
    monkeypatch.setattr(smoothing, "_SPEEDS", (speed,))
    monkeypatch.setattr(smoothing, "_JUMPS", 0.0)
    monkeypatch.setattr(smoothing, "_APART", np.inf)
    monkeypatch.setattr(smoothing, "_SIDES", np.inf)
    rng = np.random.default_rng(1)
    epochs = np.array([0, 1, 2, 4, 5, 6, 9])
    estimate = rng.normal(0.25, 0.03, (7, 4))
    estimate[3, 1] = np.nan
    series = Series(epochs, np.full((7, 4), 4000), estimate, np.full((7, 4), 0.03))
    errors = errors_of(collection)[0]
    assert errors is not None
    found = smooth(series, errors)
    known = series.known
    frequencies = np.where(known, estimate, 0.0)
    shares = errors.shares(frequencies, errors.levels(frequencies))
    kept = np.minimum(errors.floor_variance(shares) / 4000, 0.0009)
    for value in range(4):
        seen = known[:, value]
        level = speed * 0.0009 * np.minimum(epochs[:, None], epochs) + 1e3
        whole = level + np.diag(0.0009 - kept[:, value])
        weights = np.linalg.solve(whole[np.ix_(seen, seen)], level[seen])
        best = weights.T @ estimate[seen, value]
        variance = np.diag(level - level[:, seen] @ weights) + kept[seen, value].mean()
        assert found.estimate[:, value] == pytest.approx(best, abs=1e-6)
        assert found.std_error[:, value] == pytest.approx(np.sqrt(variance), abs=1e-6)


def jumped(
    epochs: int, raw: np.ndarray, noise: float, cases: dict[tuple[int, ...], float], jump: float
) -> Any:
    """Mean and variance of each level from all the ways it can jump, by whole covariance matrices."""
    weights, means, variances = [], [], []
    for steps, chance in cases.items():
        level = np.full((epochs, epochs), 1e5)
        for step in steps:
            after = np.arange(epochs) > step
            level += jump * np.outer(after, after)
        whole = level + noise * np.eye(epochs)
        gain = np.linalg.solve(whole, level)
        density = -0.5 * (raw @ np.linalg.solve(whole, raw) + np.linalg.slogdet(whole)[1])
        weights.append(np.log(chance) + density)
        means.append(gain.T @ raw)
        variances.append(np.diag(level - level @ gain))
    weight = (
        np.exp(np.array(weights) - max(weights))[:, None] / np.exp(np.array(weights) - max(weights)).sum()
    )
    mean = (weight * means).sum(axis=0)
    return mean, (weight * (variances + (means - mean) ** 2)).sum(axis=0)


def test_jumps_are_weighed_as_likely_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs, and the middle one of three: nothing is merged there, so the mixture is exact."""
    monkeypatch.setattr(smoothing, "_SPEEDS", (0.0,))
    monkeypatch.setattr(smoothing, "_APART", np.inf)
    monkeypatch.setattr(smoothing, "_SIDES", np.inf)
    monkeypatch.setattr(smoothing, "_DIFFUSE", 1e9)
    raw = np.array([[0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 3.0, 4.5, 8.0, 3.5], [0.2, 0.4, 4.0, -0.5, 3.7]])
    for count in (2, 3):
        series = Series(np.arange(count), np.full((count, 5), 100), raw[:count], np.ones((count, 5)))
        found = smooth(series, None)
        chance = 0.2 / (count - 1)
        cases: dict[tuple[int, ...], float] = {(): 1 - chance, (0,): chance}
        if count == 3:
            # An event, two jumps in turn, is as likely as one.
            single = chance * (1 - chance)
            cases = {(): (1 - chance) ** 2, (0,): single, (1,): single, (0, 1): chance}
        for value in range(5):
            mean, variance = jumped(count, raw[:count, value], 1.0, cases, 100.0)
            exact = slice(None) if count == 2 else 1
            assert found.estimate[exact, value] == pytest.approx(mean[exact], abs=1e-3)
            assert found.std_error[exact, value] ** 2 == pytest.approx(variance[exact], rel=1e-3)


def test_an_estimate_that_is_missing_may_have_jumped_on_one_side_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between epochs that agree nothing happened; between epochs that differ it is either of them."""
    raw = np.array([[0.0, 0.0], [0.1, 0.1], [np.nan, np.nan], [0.0, 9.0], [-0.1, 9.1]])
    found = smooth(Series(np.arange(5), np.full((5, 2), 100), raw, np.ones((5, 2))), None)
    assert abs(found.estimate[2, 0]) < 0.2
    assert found.std_error[2, 0] < 1
    assert found.estimate[2, 1] == pytest.approx(4.5, abs=0.5)
    assert 4 < found.std_error[2, 1] < 5
    # The chance of a jump grows with the epochs in between, also where they are not in the series.
    seen = np.array([0, 1, 3, 4])
    again = smooth(Series(seen, np.full((4, 2), 100), raw[seen], np.ones((4, 2))), None)
    assert again.estimate == pytest.approx(found.estimate[seen], abs=1e-6)


def test_the_band_reaches_over_the_interval_of_an_estimate_that_is_far_off() -> None:
    raw = np.tile([0.0, 0.1, -0.1, 0.05], 8)[:, None] + np.zeros((32, 3))
    raw[10, 1] += 3.0
    raw[16:, 2] += 3.0
    found = smooth(Series(np.arange(32), np.full((32, 3), 100), raw, np.ones((32, 3))), None)
    reach = np.abs(raw - found.estimate) + 1.959964
    wide = 1.959964 * found.std_error >= reach - 1e-9
    assert np.flatnonzero(wide[:, 0]).tolist() == []
    assert np.flatnonzero(wide[:, 1]).tolist() == [10]
    assert set(np.flatnonzero(wide[:, 2]).tolist()) >= {15, 16}
    # What is memoised is in the band, not in what it is compared with: a fresh error of 0 is no event.
    assert found.std_error[wide].min() >= 1.0


def test_p_values_and_false_discoveries() -> None:
    change, error = np.array([0.0, 0.3, -0.3, 1.0, np.nan, 1e-16]), np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.0])
    p = p_values(change, error)
    assert p == pytest.approx([1.0, 2 * norm.sf(3), 2 * norm.sf(3), 2 * norm.sf(10), 1.0, 1.0])
    assert normal_limit(0.95) == pytest.approx(norm.ppf(0.975))


def test_comparisons(results: Path, collection: Collection) -> None:
    series = of_kind(Series, only(ldpbeam.read(results)).series)
    errors = errors_of(collection)[0]
    late = series.epochs >= 20
    estimate = series.estimate.copy()
    estimate[late, 2] += 0.5
    shifted = Series(series.epochs, series.n, estimate, series.std_error)
    found = compare_epochs(shifted, ~late, late, errors)
    assert found.moved(0.05).tolist()[0] == 2
    assert found.change == pytest.approx(estimate[late].mean(axis=0) - estimate[~late].mean(axis=0))
    assert found.before.estimate == pytest.approx(estimate[~late].mean(axis=0))
    assert found.adjusted == pytest.approx(adjusted(found.p_value))
    # Two runs of one version are one series; two versions have memos of their own.
    one, two = shifted.rows(~late), shifted.rows(late)
    joined = of_kind(Series, together(two, one))
    assert joined is not None
    assert (joined.epochs == series.epochs).all()
    assert (joined.estimate == estimate).all()
    assert together(one, one) is None
    versions = compare_runs(mean(one, errors), mean(two, errors))
    assert versions.change == pytest.approx(found.change)
    both = mean(one, errors).std_error ** 2 + mean(two, errors).std_error ** 2
    assert versions.std_error == pytest.approx(np.sqrt(both))
