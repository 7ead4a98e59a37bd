"""What the experiments find at small sizes, against what is published and what theory gives."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from reproduction import paper_numbers
from reproduction.experiments import EXPERIMENTS
from reproduction.loloha_data import errors
from reproduction.paper import Cell, Row, Settings, distinct, mean, number
from reproduction.protocols import frequency_protocol
from tests.narrow import present


def rows_of(name: str, settings: Settings, cells: Sequence[Cell] | None = None) -> list[Row]:
    one = EXPERIMENTS[name]
    return [row for cell in cells or one.cells(settings) for row in one.compute(settings, cell)]


def verdicts(name: str, rows: Sequence[Row]) -> set[str]:
    return {one.verdict for one in EXPERIMENTS[name].compare(rows)}


# --- closed forms: every printed digit


def test_a_wrong_variance_is_seen() -> None:
    rows = rows_of("allomfree:table2", Settings())
    rows[3] = {**rows[3], "agrees": False}
    assert verdicts("allomfree:table2", rows) == {"differs"}


def test_costs_of_reports() -> None:
    rows = rows_of("loloha:table1", Settings(devices=300), [{"k": 96, "n": 300}])
    bits = {row["method"]: row["bits of a report"] for row in rows}
    assert (bits["RAPPOR"], bits["L-GRR"]) == (96, 7)
    caps = {row["method"]: row["budget"] for row in rows}
    assert caps["1BitFlipPM"] == pytest.approx(2.0)  # one bit spends half of ε∞, and two answers are kept
    assert caps["L-OSUE"] == pytest.approx(192.0)


# --- data


def test_errors_are_the_variances_of_theory() -> None:
    """Every method on a small Syn; several hundred squared errors in each mean."""
    settings = Settings(devices=600, epochs=6, seed=2)
    groups = ("RAPPOR", "L-OSUE", "L-GRR", "BiLOLOHA", "OLOLOHA", "OLOLOHA exact", "1BitFlipPM")
    cells: list[Cell] = [{"group": g, "level": level, "run": 0} for g in groups for level in (1.0, 4.0)]
    rows = rows_of("loloha:fig3:syn", settings, cells)
    theory = [row for row in rows if row["theory"] is not None and row["method"] != "1BitFlipPM"]
    assert len({row["method"] for row in theory}) == 8
    ratios = [number(row, "mse") / number(row, "theory") for row in theory]
    assert min(ratios) > 0.75
    assert max(ratios) < 1.25
    # One bucket of 360 for each of 600 devices: few reports a bucket, so the error is above that of the mean.
    assert {row["alpha"] for row in rows if row["method"] == "1BitFlipPM"} == {0.4, 0.5, 0.6}


def test_the_papers_curves_are_below_the_variance_and_above_answering_uniform() -> None:
    settings = Settings(devices=3000, epochs=3, seed=2)
    rows = rows_of("loloha:fig3:syn", settings, [{"group": "L-OSUE", "level": 2.0, "run": 0}])
    for alpha in distinct(rows, "alpha"):
        clipped = mean(rows, "mse", alpha=alpha, estimate="clipped and renormalised")
        assert (
            mean(rows, "uniform", alpha=alpha) < clipped < mean(rows, "mse", alpha=alpha, estimate="unbiased")
        )


@pytest.mark.thorough
def test_the_loss_of_devices_is_that_of_the_figure(shared_data: Path) -> None:
    for name in ("syn", "db_mt"):
        rows = rows_of(f"loloha:fig4:{name}", Settings(data=shared_data), [{"run": 0}])
        assert "differs" not in verdicts(f"loloha:fig4:{name}", rows)
        assert mean(rows, "inputs", method="BiLOLOHA") == pytest.approx(2, abs=0.02)
        assert mean(rows, "inputs", method="1BitFlipPM") < 2


@pytest.mark.thorough
def test_memoised_answers_of_many_bits_show_every_change(shared_data: Path) -> None:
    rows = rows_of(
        "loloha:table2:db_mt", Settings(data=shared_data, devices=2000), [{"level": 2.0, "run": 0}]
    )
    shown = {row["d"]: number(row, "per cent") for row in rows}
    assert shown["b"] == 100
    assert shown["1"] < 0.2


def test_few_bits_hide_some_changes() -> None:
    """So that a share of 100 per cent means something: four buckets, two values in turn."""
    settings = Settings(devices=400, epochs=12, seed=5)
    rows = rows_of("loloha:table2:syn", settings, [{"level": 0.5, "run": 0}])
    assert {row["d"]: row["per cent"] for row in rows}["1"] == 0


def test_the_three_errors_are_of_what_they_are_called() -> None:
    one = frequency_protocol("l_osue", 4, epsilon_longitudinal=2.0, epsilon_first=1.0)
    found, truth = np.array([[0.7, 0.5, -0.4, 0.2], [1.2, -0.1, -0.2, 0.1]]), np.full((2, 4), 0.25)
    clipped = found.clip(0) / found.clip(0).sum(axis=1, keepdims=True)
    projected = np.array([[17 / 30, 11 / 30, 0, 2 / 30], [1, 0, 0, 0]])
    squares = errors(found, truth, one, 1000)
    assert list(squares) == ["unbiased", "clipped and renormalised", "Norm-Sub"]
    for name, histogram in zip(squares, (found, clipped, projected), strict=True):
        assert squares[name] == pytest.approx(((histogram - truth) ** 2).mean())


@pytest.mark.thorough
def test_gains_of_allomfree_are_those_of_clipped_estimates(shared_data: Path) -> None:
    settings = Settings(data=shared_data, runs=12)
    name = "allomfree:table4:nursery"
    rows = rows_of(name, settings)
    assert verdicts(name, rows) == {"reproduced"}
    unbiased = [row for row in rows if row["estimate"] == "unbiased"]
    off = [
        abs(number(row, "mse") - number(row, "theory")) / number(row, "mse_error")
        for row in unbiased
        if row["mse_error"]
    ]
    assert sum(off) / len(off) < 1.6  # a t of 11 degrees of freedom has a mean of 0.83


# --- Consistency


@pytest.fixture(scope="module")
def bfive() -> list[Row]:
    settings = Settings(devices=200_000, epochs=3, seed=2)
    cells: list[Cell] = [
        {"protocol": name, "level": 2.5, "run": run}
        for name in paper_numbers.CONSISTENCY_PROTOCOLS
        for run in range(3)
    ]
    return rows_of("consistency:table2:bfive", settings, cells)


@pytest.mark.thorough
def test_made_data_of_bfives_shape_has_its_published_errors(bfive: list[Row]) -> None:
    """Nine epochs of seven values each: errors of a mean of 63 squares, about a fifth."""
    printed = paper_numbers.CONSISTENCY_TABLE_2["bfive"]
    for place, name in enumerate(paper_numbers.CONSISTENCY_PROTOCOLS):
        for method in ("none", "norm_sub"):
            found = mean(bfive, "mse", protocol=name, method=method)
            assert 0.4 < found / printed[method][place].value < 2.0, (name, method, found)


@pytest.mark.thorough
def test_the_degenerate_rows_are_those_of_answering_1_and_uniform(bfive: list[Row]) -> None:
    printed = paper_numbers.CONSISTENCY_TABLE_2["bfive"]
    ones = mean(bfive, "mse", method="(answer 1 everywhere)")
    uniform = mean(bfive, "mse", method="(answer 1/k everywhere)")
    assert printed["power"][0].value == pytest.approx(ones, abs=0.002)
    assert printed["power_ns"][0].value == pytest.approx(uniform, rel=0.05)
    for method in ("power", "power_ns"):
        assert mean(bfive, "mse", method=method) < uniform / 100


def test_every_method_and_protocol_is_in_the_layout(bfive: list[Row]) -> None:
    from ldpbeam.consistency import NAMES

    summary = present(EXPERIMENTS["consistency:table2:bfive"].summary)
    table = summary(bfive)
    methods = [name for name in NAMES if name != "ordered"]  # the paper's values are in no order
    assert [row["method"] for row in table][: len(methods)] == methods
    assert {"l_grr", "biloloha", "l_osue, published"} <= set(table[0])
    found = {
        one.claim.rpartition(": ")[2]: one.verdict
        for one in EXPERIMENTS["consistency:table2:bfive"].compare(bfive)
    }
    assert found["Power"] == found["PowerNS"] == "does not hold"


def test_figures_over_epsilon_fall_towards_more_budget() -> None:
    settings = Settings(devices=400, epochs=3, seed=2)
    cells: list[Cell] = [{"protocol": "l_osue", "level": level, "run": 0} for level in (0.5, 5.0)]
    rows = rows_of("consistency:fig3", settings, cells)
    low, high = (mean(rows, "mse", method="norm_sub", epsilon_longitudinal=level) for level in (5.0, 0.5))
    assert low < high / 5
    (figure,) = EXPERIMENTS["consistency:fig3"].figures(rows)
    assert figure.name == "consistency-fig3"


# --- Microsoft


@pytest.mark.parametrize("figure", ["fig2a", "fig3a", "fig3b"])
def test_errors_of_means_are_those_of_theory(figure: str) -> None:
    settings = Settings(devices=3000, seed=4)
    mechanisms = ("1BitRRPM", "1BitRRPM+OP(1/10)", "1BitRRPM+OP(1/3)", "Laplace")
    cells: list[Cell] = [
        {"mechanism": m, "level": e, "runs": 300} for m in mechanisms for e in (0.2, 1.0, 5.0)
    ]
    rows = rows_of(f"microsoft:{figure}", settings, cells)
    # |error| of a normal has a deviation of 0.756 times its mean: 4.4 % for 300 runs.
    for row in rows:
        assert abs(number(row, "error") / number(row, "theory") - 1) < 0.22, row


def test_laplace_beats_one_bit_about_noon_beyond_two() -> None:
    settings = Settings(devices=3000, seed=4)
    cells: list[Cell] = [
        {"mechanism": m, "level": e, "runs": 2} for m in ("1BitRRPM", "Laplace") for e in (1.0, 5.0)
    ]
    rows = rows_of("microsoft:fig3a", settings, cells)
    one, laplace = (
        [mean(rows, "theory", mechanism=m, epsilon=e) for e in (1.0, 5.0)] for m in ("1BitRRPM", "Laplace")
    )
    assert one[0] < laplace[0]
    assert one[1] > laplace[1]


# --- corrections


def test_intervals_cover_and_those_of_the_published_variance_do_not() -> None:
    rows = rows_of("corrections:variance", Settings(quick=True, seed=3))
    (half,) = [row for row in rows if row["frequency"] == 0.5]
    assert number(half, "variance") / number(half, "published") == pytest.approx(22, abs=0.6)
    assert min(number(row, "coverage") for row in rows) > 0.9  # 400 draws: 95 % ± 1.1
    assert min(number(row, "coverage of Eq. (4)") for row in rows) < 0.5
