"""ALLOMFREE (Arcolezi et al., 2022): variances of two-round protocols, and many attributes of one device.

Tables 1 and 2 and Figure 3 are closed forms. For Tables 3 and 4 and Figures 4 to 6 every device draws one of
its attributes and reports it once with the whole ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimates import variance
from ldpbeam.protocols import FrequencyProtocol
from reproduction import paper_numbers
from reproduction.data import attributes
from reproduction.draws import frequencies, one_epoch
from reproduction.loloha_data import CLIPPED, UNBIASED, errors
from reproduction.paper import Comparison, Figure, Panel, Row, Settings, distinct, mean, number
from reproduction.protocols import floor, frequency_protocol, two_rounds_of
from reproduction.study import panels, series, study

_PAPER_N = 10_000
_LEVELS = tuple(half / 2 for half in range(1, 9))
"""ε∞ of Figures 3 to 7 and Tables 3 and 4."""

_RUNS = 100
_UNARY = ("l_osue", "l_sue", "l_soue", "l_oue")


def allomfree(size: int, longitudinal: float, first: float, *, published: bool) -> FrequencyProtocol[Any]:
    """Algorithm 1: the better of L-GRR and L-OSUE by V*, at either calibration."""
    grr = two_rounds_of("l_grr", size, longitudinal, first, published=published)
    osue = two_rounds_of("l_osue", size, longitudinal, first)
    return grr if floor(grr) <= floor(osue) else osue


# --- Tables 1 and 2, Figure 3: closed forms


def _table_1(alpha: float) -> list[Row]:
    rows: list[Row] = []
    for of, longitudinal, first, printed in paper_numbers.ALLOMFREE_TABLE_1:
        if of != alpha:
            continue
        key = (alpha, longitudinal, first)
        levels = paper_numbers.ALLOMFREE_TABLE_1_MISLABELLED.get(key, (longitudinal, first))
        for (name, size), text in zip(paper_numbers.ALLOMFREE_TABLE_1_COLUMNS, printed, strict=True):
            variance, exact = (
                floor(two_rounds_of(name, size, *levels, published=published), _PAPER_N)
                for published in (True, False)
            )
            rows.append(
                {
                    "alpha": alpha,
                    "epsilon_longitudinal": levels[0],
                    "epsilon_first": levels[1],
                    "label": f"ε∞ = {longitudinal}, ε1 = {first}",
                    "protocol": name,
                    "k": size if name == "l_grr" else None,
                    "published": text.text,
                    "variance": variance,
                    "agrees": text.agrees(variance),
                    "exact_calibration": exact,
                }
            )
    return rows


def _compare_table_1(rows: Sequence[Row]) -> list[Comparison]:
    mislabelled = len(paper_numbers.ALLOMFREE_TABLE_1_MISLABELLED)
    worst = max(rows, key=lambda row: number(row, "variance") / number(row, "exact_calibration"))
    return [
        _digits(
            rows,
            "Table 1: V* of L-GRR and four L-UE protocols, n = 10,000",
            f"{mislabelled} rows at ε1 = 0.3 ε∞ bear the labels of other levels; their numbers are those of "
            "ε∞ = 2 and 4",
        ),
        Comparison(
            "Table 1: L-GRR 'gets extremely high values' for large k",
            f"{worst['published']} at k = {worst['k']}, {worst['label']}",
            f"{number(worst, 'exact_calibration'):.4g} with the exact calibration",
            "holds with a correction",
            "the published second round leaves most of ε1 unspent (docs/maths.md correction 1)",
        ),
    ]


def _digits(rows: Sequence[Row], claim: str, why: str = "") -> Comparison:
    agreeing = sum(bool(row["agrees"]) for row in rows)
    found = f"{agreeing} of {len(rows)} agree in every printed digit"
    verdict = "reproduced" if agreeing == len(rows) else "differs"
    return Comparison(claim, f"{len(rows)} numbers", found, verdict, why)


def _table_2() -> list[Row]:
    rows: list[Row] = []
    for epsilon, printed in paper_numbers.ALLOMFREE_TABLE_2:
        for (name, size), text in zip(paper_numbers.ALLOMFREE_TABLE_2_COLUMNS, printed, strict=True):
            variance = floor(frequency_protocol(name, size, epsilon=epsilon), _PAPER_N)
            rows.append(
                {
                    "epsilon": epsilon,
                    "protocol": name,
                    "k": size if name == "grr" else None,
                    "published": text.text,
                    "variance": variance,
                    "agrees": text.agrees(variance),
                }
            )
    return rows


def _compare_table_2(rows: Sequence[Row]) -> list[Comparison]:
    return [_digits(rows, "Table 2: V* of one-round GRR, OUE, SUE, n = 10,000")]


def _figure_3(alpha: float) -> list[Row]:
    return [
        {
            "alpha": alpha,
            "epsilon_longitudinal": level,
            "protocol": name,
            "variance": floor(two_rounds_of(name, 2, level, alpha * level), _PAPER_N),
        }
        for name in _UNARY
        for level in _LEVELS
    ]


def _draw_figure_3(rows: Sequence[Row]) -> list[Figure]:
    lines = partial(series, x="epsilon_longitudinal", y="variance", name="protocol")
    drawn = panels(rows, "alpha", ("ε1 = {} ε∞", "ε∞", "V* (n = 10,000)"), lines)
    return [Figure("allomfree-fig3", "Variance of the four L-UE protocols.", drawn)]


def _compare_figure_3(rows: Sequence[Row]) -> list[Comparison]:
    best = all(
        mean(rows, "variance", alpha=alpha, epsilon_longitudinal=level, protocol="l_osue")
        <= mean(rows, "variance", alpha=alpha, epsilon_longitudinal=level, protocol=name)
        for alpha in distinct(rows, "alpha")
        for level in _LEVELS
        for name in _UNARY
    )
    return [
        Comparison(
            "Section 4.4: 'the best option for L-UE protocols … is to start with OUE and then with SUE'",
            "L-OSUE has the least V*",
            "least at all 16 settings" if best else "not least everywhere",
            "reproduced" if best else "does not hold",
        )
    ]


# --- Tables 3 and 4, Figures 4 to 7: one of several attributes per device


def _methods(k: int, level: float, first: float) -> dict[str, FrequencyProtocol[Any]]:
    """What is compared: the protocol of an attribute with k values at levels ε∞, ε1."""
    return {
        **{name: two_rounds_of(name, k, level, first) for name in ("l_sue", "l_oue", "l_osue", "l_soue")},
        "allomfree": allomfree(k, level, first, published=True),
        "allomfree exact": allomfree(k, level, first, published=False),
        "sample + loloha": two_rounds_of("loloha", k, level, first),
    }


def _gains(
    data: str, settings: Settings, rng: np.random.Generator, alpha: float, level: float, runs: int
) -> list[Row]:
    """MSE of every method, averaged over values, attributes and runs; and its expectation in theory."""
    values, sizes = attributes(data, settings.data)
    values = values[: settings.devices]
    truth = [np.bincount(column, minlength=k) for column, k in zip(values.T, sizes, strict=True)]
    each = [_methods(k, level, alpha * level) for k in sizes]
    protocols = {method: [one[method] for one in each] for method in each[0]}
    squares = {method: np.zeros((2, runs)) for method in protocols}
    for run in range(runs):
        chosen = rng.integers(0, len(sizes), len(values))
        held = [np.bincount(values[chosen == j, j], minlength=k) for j, k in enumerate(sizes)]
        for method, built in protocols.items():
            squared = [
                _squared(rng, one, mine, all_ / len(values))
                for one, mine, all_ in zip(built, held, truth, strict=True)
            ]
            squares[method][:, run] = np.mean(squared, axis=0)
    rows: list[Row] = []
    for method, mses_of in squares.items():
        expected = [_expected(*pair, len(sizes)) for pair in zip(protocols[method], truth, strict=True)]
        for estimate, mses in zip((UNBIASED, CLIPPED), mses_of, strict=True):
            rows.append(
                {
                    "data": data,
                    "alpha": alpha,
                    "epsilon_longitudinal": level,
                    "method": method,
                    "estimate": estimate,
                    "mse": float(mses.mean()),
                    "mse_error": float(mses.std(ddof=1) / np.sqrt(runs)) if runs > 1 else None,
                    "theory": float(np.mean(expected)) if estimate == UNBIASED else None,
                    "runs": runs,
                }
            )
    return rows


def _squared(
    rng: np.random.Generator, built: FrequencyProtocol[Any], held: Ints, truth: Floats
) -> tuple[float, float]:
    """Mean squared errors of the unbiased estimates, and of the clipped and renormalised ones."""
    n = int(held.sum())
    estimates = frequencies(one_epoch(rng, built, held), n, built.estimator.support)
    squares = errors(estimates[None, :], truth[None, :], built, n)
    return squares[UNBIASED], squares[CLIPPED]


def _expected(built: FrequencyProtocol[Any], truth: Ints, attributes: int) -> float:
    """Mean variance of an attribute's estimates, about which one in so many devices reports."""
    n = int(truth.sum())
    among = built.estimator.support.among(Fraction(1, attributes))
    return float(variance(truth / n, n // attributes, among).mean())


def _gain(
    rows: Sequence[Row], over: str, method: str = "allomfree", column: str = "mse", **where: Any
) -> float:
    """Eq. (17): by how many per cent ``method`` lowers the MSE of ``over``."""
    base, ours = (mean(rows, column, method=one, **where) for one in (over, method))
    return 100 * (base - ours) / base


def _noise(rows: Sequence[Row], over: str, **where: Any) -> float:
    """Standard error of the difference of two such gains, one of them of the paper's 100 runs."""
    ours, theirs = (mean(rows, "mse", method=method, **where) for method in ("allomfree", over))
    deviations = (mean(rows, "mse_error", method=method, **where) for method in ("allomfree", over))
    relative = sum((error / mse) ** 2 for error, mse in zip(deviations, (ours, theirs), strict=True))
    runs = mean(rows, "runs", **where)
    return 100 * ours / theirs * float(np.sqrt(relative * (1 + runs / _RUNS)))


def _draw_gains(data: str, figure: int, rows: Sequence[Row]) -> list[Figure]:
    drawn = []
    for alpha in distinct(rows, "alpha"):
        for estimate in (CLIPPED, UNBIASED):
            some = [row for row in rows if row["alpha"] == alpha and row["estimate"] == estimate]
            lines = series(some, "epsilon_longitudinal", "mse", "method")
            ours = [row for row in some if row["method"] == "allomfree"]
            lines += series(ours, "epsilon_longitudinal", "theory", lambda row: THEORY, dashed=(THEORY,))
            title = f"ε1 = {alpha} ε∞, {estimate}"
            drawn.append(Panel(title, "ε∞", "MSE, averaged over attributes", lines))
    caption = f"{TITLES[data]}: error of one attribute per device, reported once."
    part = "above" if distinct(rows, "alpha") == [0.3] else "below"
    return [Figure(f"allomfree-fig{figure}-{part}", caption, drawn)]


def _gain_table(data: str, rows: Sequence[Row]) -> list[Row]:
    table: list[Row] = []
    for alpha in distinct(rows, "alpha"):
        for level in distinct(rows, "epsilon_longitudinal"):
            row: Row = {"alpha": alpha, "epsilon_longitudinal": level}
            where: dict[str, Any] = {"alpha": alpha, "epsilon_longitudinal": level}
            theory: dict[str, Any] = {**where, "estimate": UNBIASED, "column": "theory"}
            for over in ("l_sue", "l_oue"):
                key = (float(alpha or 0), data, float(level or 0), over)
                row[f"over {over}, published"] = paper_numbers.ALLOMFREE_GAINS.get(key)
                for estimate in (CLIPPED, UNBIASED):
                    gain = _gain(rows, over, **where, estimate=estimate)
                    row[f"over {over}, {estimate}"] = round(gain, 2)
                row[f"over {over}, theory"] = round(_gain(rows, over, **theory), 2)
            row["exact over published calibration"] = round(
                _gain(rows, "allomfree", "allomfree exact", **theory), 2
            )
            row["sample + LOLOHA over allomfree"] = round(
                _gain(rows, "allomfree", "sample + loloha", **theory), 2
            )
            table.append(row)
    return table


def _compare_gains(data: str, rows: Sequence[Row]) -> list[Comparison]:
    comparisons = []
    levels = distinct(rows, "epsilon_longitudinal")
    for alpha in distinct(rows, "alpha"):
        place = f"Table {3 if alpha == 0.3 else 4}, {TITLES[data]}"
        for over in ("l_sue", "l_oue"):
            printed = [
                paper_numbers.ALLOMFREE_GAINS[float(alpha or 0), data, float(level or 0), over]
                for level in levels
            ]

            def average(estimate: str, column: str = "mse", alpha: Any = alpha, over: str = over) -> float:
                where = {"estimate": estimate, "alpha": alpha, "column": column}
                gains = [_gain(rows, over, **where, epsilon_longitudinal=level) for level in levels]
                return sum(gains) / len(gains)

            ours, theirs = average(CLIPPED), sum(printed) / len(printed)
            text = f"{ours:.1f} % clipped and renormalised; {average(UNBIASED):.1f} % unbiased "
            text += f"(theory {average(UNBIASED, 'theory'):.1f} %)"
            verdict, why = "not judged", "one run has no error"
            if number(rows[0], "runs") > 1:
                noises = [
                    _noise(rows, over, alpha=alpha, epsilon_longitudinal=level, estimate=CLIPPED)
                    for level in levels
                ]
                noise = float(np.sqrt(np.square(noises).sum())) / len(levels)
                same = abs(ours - theirs) <= _STANDARD_ERRORS * noise
                verdict = "reproduced" if same else "differs"
                why = (
                    f"±{_STANDARD_ERRORS * noise:.1f} is expected; the published gains are those of clipped "
                    "and renormalised estimates, as in LOLOHA (docs/maths.md correction 4)"
                )
            comparisons.append(
                Comparison(f"{place}: mean gain over {over}", f"{theirs:.1f} %", text, verdict, why)
            )
    return comparisons


THEORY = "theory (allomfree, unbiased)"

_STANDARD_ERRORS = 4.0
"""How far apart two noisy means may lie that are said to be the same."""

TITLES = {"nursery": "Nursery", "adult": "Adult", "msfimu": "MS-FIMU", "census_income": "Census-Income"}


EXPERIMENTS = (
    study(
        *("allomfree:table1", "ALLOMFREE Table 1"),
        "Approximate variance of two-round protocols, in closed form",
        {"alpha": (0.6, 0.5, 0.4, 0.3, 0.2, 0.1)},
        _table_1,
        compare=_compare_table_1,
    ),
    study(
        *("allomfree:table2", "ALLOMFREE Table 2"),
        "Approximate variance of one-round protocols, in closed form",
        {},
        _table_2,
        compare=_compare_table_2,
    ),
    study(
        *("allomfree:fig3", "ALLOMFREE Fig. 3"),
        "Approximate variance of the L-UE protocols over ε∞",
        {"alpha": (0.3, 0.6)},
        _figure_3,
        figures=_draw_figure_3,
        compare=_compare_figure_3,
    ),
    *(
        study(
            f"allomfree:table{table}:{{data}}",
            f"ALLOMFREE Fig. {{figure}} ({part}) and Table {table}",
            f"{TITLES[data]}: MSE of one of several attributes per device, and what ALLOMFREE gains",
            {"alpha": (alpha,), "level": _LEVELS, "runs": lambda settings: [settings.repeats(_RUNS)]},
            _gains,
            figures=_draw_gains,
            compare=_compare_gains,
            summary=_gain_table,
            draws="allomfree:{data}",
            constants={"data": data, "figure": figure},
            files=("msfimu_marginals.json" if data == "msfimu" else f"{data}.csv",),
        )
        for figure, data in enumerate(TITLES, 4)
        for table, part, alpha in ((3, "above", 0.3), (4, "below", 0.6))
    ),
)
"""Every table and figure of the paper."""
