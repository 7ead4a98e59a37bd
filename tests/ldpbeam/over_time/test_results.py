"""Results read back: the newest revision of each epoch, series, roll-ups, and what changed."""

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
from ldpbeam.over_time.compare import compare_epochs, compare_runs, together
from ldpbeam.over_time.results import History, Part, ResultsFolder, histories
from ldpbeam.over_time.rollup import CALENDAR, every, roll_up
from ldpbeam.over_time.significance import adjusted, normal_limit, p_values

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
    # A folder of tables will do, also where some lack columns that are not needed.
    old = estimates(collection, 9).drop_columns(["version", "epoch_end", "std_error_floor"])
    pq.write_table(old, tmp_path / "latest" / "b.parquet")
    both = ldpbeam.read(tmp_path / "latest")
    assert both.filter(pa.compute.equal(both["epoch"], 9))["std_error_floor"].null_count == 4
    (tmp_path / "latest" / "a.parquet").unlink()
    assert only(ldpbeam.read(tmp_path)).ends.tolist() == [-1]


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
    series = history.series
    assert series.epochs.tolist() == [e for e in range(EPOCHS) if e != 3]
    assert (series.n == 800).all()
    shaped = np.asarray(table["estimate"]).reshape(-1, 4)
    assert (series.estimate == shaped).all()
    # The order of rows does not matter, and a row that is missing leaves one hole.
    rows = np.random.default_rng(1).permutation(table.num_rows)
    mixed = only(table.take(rows[rows != 6])).series
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


def test_p_values_and_false_discoveries() -> None:
    change, error = np.array([0.0, 0.3, -0.3, 1.0, np.nan, 1e-16]), np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.0])
    p = p_values(change, error)
    assert p == pytest.approx([1.0, 2 * norm.sf(3), 2 * norm.sf(3), 2 * norm.sf(10), 1.0, 1.0])
    assert normal_limit(0.95) == pytest.approx(norm.ppf(0.975))


def test_comparisons(results: Path, collection: Collection) -> None:
    series = only(ldpbeam.read(results)).series
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
    joined = together(two, one)
    assert joined is not None
    assert (joined.epochs == series.epochs).all()
    assert (joined.estimate == estimate).all()
    assert together(one, one) is None
    versions = compare_runs(mean(one, errors), mean(two, errors))
    assert versions.change == pytest.approx(found.change)
    both = mean(one, errors).std_error ** 2 + mean(two, errors).std_error ** 2
    assert versions.std_error == pytest.approx(np.sqrt(both))
