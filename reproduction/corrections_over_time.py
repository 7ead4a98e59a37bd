"""Findings about several reports: what they lose together, and how the errors of epochs hang together."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any

import numpy as np

from ldpbeam.estimates import variance
from reproduction.corrections import FIRST, LONG, two
from reproduction.data import paired
from reproduction.draws import frequencies, one_epoch, two_rounds
from reproduction.paper import Comparison, Figure, Row, Settings, mean, number
from reproduction.protocols import floor, frequency_protocol, two_rounds_of
from reproduction.study import curves, panels, study

# --- correction 5: losses over several reports


def _losses(g: int) -> list[Row]:
    one = two("loloha", 360, g=g)
    losses: Any = one.losses
    rows: list[Row] = []
    for t in range(1, 9):
        printed = log((exp(LONG + t * FIRST) + 1) / (exp(LONG) + exp(t * FIRST)))
        changes = losses.any_changes(t)
        rows.append(
            {
                "g": g,
                "reports": t,
                "Eq. (16)": printed,
                "constant value": losses.constant(t),
                "renamed values": losses.same_changes(t),
                "any two sequences": changes,
                "cap": g * LONG,
            }
        )
    return rows


def _draw_losses(rows: Sequence[Row]) -> list[Figure]:
    columns = ("Eq. (16)", "constant value", "renamed values", "any two sequences", "cap")
    drawn = panels(
        *(rows, "g", ("LOLOHA, g = {}", "reports", "loss")),
        lambda some: curves(some, "reports", columns, dashed=("cap", "Eq. (16)")),
        log_y=False,
    )
    return [Figure("corrections-loss", "Loss of several reports, ε∞ = 2, ε1 = 1.", drawn)]


def _compare_losses(rows: Sequence[Row]) -> list[Comparison]:
    def at(g: int, t: int, column: str) -> float:
        return mean(rows, column, g=g, reports=t)

    known = [
        t for t in range(1, 9) if all(r["any two sequences"] is not None for r in rows if r["reports"] == t)
    ]
    last = max(known)
    strict = two_rounds_of("loloha", 360, 0.5, 0.45, g=3)
    losses: Any = strict.losses
    return [
        Comparison(
            "Correction 5: ALLOMFREE Eq. (16), ε after t reports",
            f"{at(2, 1, 'Eq. (16)'):.2f} after one report at ε1 = 1, ε∞ = 2",
            f"{at(2, 1, 'constant value'):.2f}",
            "holds with a correction",
            "with the second round's own level in place of ε1 it is exact for a constant value",
        ),
        Comparison(
            "LOLOHA Theorem 3.5: the loss never exceeds g ε∞",
            f"{2 * LONG:g} at g = 2",
            f"{at(2, last, 'any two sequences'):.2f} after {last} reports, for the worst two sequences",
            "holds with a correction",
            "it holds for two sequences of which one is the other renamed; others exceed it (Theorem 3.1)",
        ),
        Comparison(
            "Finding: two reports spend at most 2 ε1",
            "0.9 at ε∞ = 0.5, ε1 = 0.45, g = 3",
            f"{losses.any_changes(2):.2f}",
            "does not hold",
            "whoever looks for a change learns more from two reports than from each; ldpbeam prints it",
        ),
    ]


# --- finding: errors of epochs are correlated

_STILL: tuple[tuple[str, dict[str, int]], ...] = (
    ("l_osue", {}),
    ("loloha", {"g": 2}),
    ("loloha", {"g": 3}),
    ("l_sue", {}),
)


def _correlations(settings: Settings, rng: np.random.Generator, place: int) -> list[Row]:
    """Devices whose values never change: what the mean of T epochs is worth."""
    k, n, epochs = 40, settings.devices or 2000, settings.epochs or 30
    name, more = _STILL[place]
    one = two(name, k, published=False, **more)
    people = paired(np.tile(np.arange(n) % k, (epochs, 1)), k)
    runs = settings.repeats(20)
    errors = np.empty((runs, epochs, k))
    for run in range(runs):
        errors[run] = frequencies(two_rounds(rng, [one], people)[0], n, one.estimator.support) - people.truth
    total = float((errors**2).mean())
    means = float((errors.mean(axis=1) ** 2).mean())
    report, memo = one.estimator.support, one.estimator.lasting
    whole = variance(people.truth[0], 1, report)
    kept = np.zeros_like(whole) if memo is None else variance(people.truth[0], 1, memo)
    share = float(np.minimum(kept / whole, 1.0).mean())
    return [
        {
            "protocol": f"{name} g = {more['g']}" if more else name,
            "epochs": epochs,
            "correlation": (means * epochs / total - 1) / (epochs - 1),
            "lasting share": share,
            "variance of a mean, times independent": means * epochs / total,
            "in theory": 1 + (epochs - 1) * share,
        }
    ]


def _compare_correlations(rows: Sequence[Row]) -> list[Comparison]:
    factors = [number(row, "variance of a mean, times independent") for row in rows]
    text = ", ".join(f"{row['protocol']} {number(row, 'correlation'):.2f}" for row in rows)
    return [
        Comparison(
            "Finding: errors of two epochs are independent",
            "assumed wherever epochs are averaged",
            f"correlation {text}",
            "does not hold",
            f"a mean of {rows[0]['epochs']} epochs has a variance {min(factors):.0f} to {max(factors):.0f} "
            "times that of independent ones: what is memoised errs alike in all",
        )
    ]


# --- finding: taking part in one of T epochs


def _participation(settings: Settings, rng: np.random.Generator, level: float) -> list[Row]:
    """n times the variance of a rare value in an epoch, at the same loss over a lifetime."""
    once = frequency_protocol("oue", 100, epsilon=level)
    memo = two_rounds_of("loloha", 100, level / 2, level / 4, g=2, hash_family="affine")
    n = settings.devices or 40_000
    rows: list[Row] = []
    for epochs in (1, 2, 4, 8, 16, 32, 64, 128, 365):
        squares = []
        for _ in range(settings.repeats(20)):
            held = np.zeros(100, np.int64)
            held[0] = rng.binomial(n, 1 / epochs)
            estimates = frequencies(one_epoch(rng, once, held), int(held[0]), once.estimator.support)
            squares.append(float((estimates[1:] ** 2).mean()))
        split = frequency_protocol("oue", 100, epsilon=level / epochs)
        rows.append(
            {
                "epsilon": level,
                "epochs": epochs,
                "one epoch of T": epochs * floor(once),
                "one epoch of T, measured": n * float(np.mean(squares)),
                "ε/T in every epoch": floor(split),
                "BiLOLOHA with cap ε (renamed values only)": floor(memo),
            }
        )
    return rows


def _draw_participation(rows: Sequence[Row]) -> list[Figure]:
    columns = [column for column in rows[0] if column not in {"epsilon", "epochs"}]
    drawn = panels(
        *(rows, "epsilon", ("ε = {} in a lifetime", "T, epochs", "n V of an epoch")),
        lambda some: curves(some, "epochs", columns),
        log_x=True,
    )
    return [Figure("corrections-participation", "Reporting once in T epochs.", drawn)]


def _compare_participation(rows: Sequence[Row]) -> list[Comparison]:
    memo = "BiLOLOHA with cap ε (renamed values only)"
    until = {
        row["epsilon"]: int(number(row, memo) / number(row, "one epoch of T"))
        for row in rows
        if row["epochs"] == 1
    }
    text = ", ".join(f"ε = {level}: T up to {t}" for level, t in until.items())
    return [
        Comparison(
            "Finding: memoization is needed to report over many epochs",
            "the cap g ε∞, for renamed sequences",
            f"one report in T epochs is as accurate per epoch, {text}",
            "holds with a correction",
            "its ε holds for any two sequences, its epochs err independently, and nothing links its reports",
        )
    ]


EXPERIMENTS = (
    study(
        *("corrections:loss", "Corrections", "What several reports lose together"),
        {"g": (2, 3)},
        _losses,
        figures=_draw_losses,
        compare=_compare_losses,
    ),
    study(
        *("corrections:epochs", "Corrections", "Errors of epochs and of their means"),
        {"place": range(len(_STILL))},
        _correlations,
        compare=_compare_correlations,
    ),
    study(
        *("corrections:participation", "Corrections", "One report in T epochs"),
        {"level": (2.0, 4.0, 8.0)},
        _participation,
        figures=_draw_participation,
        compare=_compare_participation,
    ),
)
"""Each correction and finding that no paper's own figure shows."""
