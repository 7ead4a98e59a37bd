"""Microsoft: behaviour patterns (Fig. 1), and what the deployment spends (sections 4 and 6, Theorem 5)."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from ldpbeam.arrays import Ints
from ldpbeam.privacy.counters import bounded_sum_epsilon
from reproduction.microsoft import DAY, MINUTE, SMALL, USAGE_NOTE, one_bit, usage
from reproduction.paper import Comparison, Figure, Line, Panel, Row, Settings, distinct, mean, number
from reproduction.study import study

_LARGE = 3_000_000
_DAYS = 31
# --- Fig. 1: behaviour patterns

_SEGMENTS = {"s = m": 1, "s = m/2": 2, "s = m/3": 3}


def pattern_supports(values: NDArray[np.int32], segment: int, alpha: Ints) -> Ints:
    """How many devices share each behaviour pattern (Definition 2), falling: values (days, n) in seconds."""
    days, n = values.shape
    points = DAY // segment + 1
    names = np.full((n, points), -1, np.int64)
    known = np.zeros(n, np.int64)
    code = np.zeros(n, np.uint64)
    bits = np.uint64(max(1, (points - 1).bit_length()))
    if days * int(bits) > 64:
        raise ValueError(f"{days} days of {points} points do not fit a 64-bit pattern")
    rows = np.arange(n)
    for held in values:
        point = held // segment + (held % segment + alpha >= segment)
        new = names[rows, point] < 0
        names[rows[new], point[new]] = known[new]
        known += new
        code = (code << bits) | names[rows, point].astype(np.uint64)
    return np.sort(np.unique(code, return_counts=True)[1])[::-1]


def _patterns(settings: Settings, rng: np.random.Generator, segments: str, n: int) -> list[Row]:
    segment = DAY // _SEGMENTS[segments]
    supports = pattern_supports(usage(n, _DAYS, settings.seed) * MINUTE, segment, rng.integers(0, segment, n))
    thresholds = [int(base * 10**power) for power in range(8) for base in (1, 2, 5)]
    return [
        {
            "segments": segments,
            "n": n,
            "support": least,
            "share": float(supports[supports >= least].sum() / n),
            "patterns": int((supports >= least).sum()),
            "largest": int(supports[0]),
        }
        for least in thresholds
        if least <= supports[0]
    ]


def _draw_patterns(rows: Sequence[Row]) -> list[Figure]:
    lines = [
        Line(
            str(name),
            sorted(
                (100 * number(row, "share"), number(row, "support"))
                for row in rows
                if row["segments"] == name
            ),
        )
        for name in distinct(rows, "segments")
    ]
    panels = [
        Panel("31 days of made usage", "% of devices in patterns of at least that support", "support", lines)
    ]
    return [Figure("microsoft-fig1", "Devices that share a behaviour pattern.", panels)]


def _compare_patterns(rows: Sequence[Row]) -> list[Comparison]:
    largest = [number(row, "largest") / number(row, "n") for row in rows if row["support"] == 1]
    lonely = [1 - mean(rows, "share", segments=name, support=5) for name in distinct(rows, "segments")]
    return [
        Comparison(
            "Section 3.2.2: one pattern, a single rounded value on all days, blends most devices",
            "more than 2 of 3 million",
            f"{min(largest):.0%} to {max(largest):.0%} of the devices",
            "reproduced" if min(largest) > 0.5 else "differs",
            "on made usage, whose habits were chosen here; the paper's data cannot be had",
        ),
        Comparison(
            "Section 3.2.2: 1 to 5 % of the devices land in patterns of support one or two",
            "1 % to 5 %",
            f"{min(lonely):.1%} to {max(lonely):.1%} share a pattern with at most three others",
            "reproduced" if max(lonely) < 0.1 else "differs",
            "on made usage; Theorem 4 promises these devices no crowd at all",
        ),
    ]


# --- section 6: the deployment


def _deployment() -> list[Row]:
    first = one_bit(1.0, 0.2).guarantee.first_report
    needed = (1 / (exp(0.686) + 1) - 1 / (exp(1) + 1)) / (1 - 2 / (exp(1) + 1))
    rows: list[Row] = [
        {"figure": "ε' of a report at ε = 1, γ = 0.2", "counters": 1, "published": 0.686, "found": first},
        {"figure": "γ that would give ε' = 0.686", "counters": 1, "published": 0.2, "found": needed},
        {
            "figure": "ε'' of Theorem 5",
            "counters": None,
            "published": 1.672,
            "found": bounded_sum_epsilon(first),
        },
    ]
    rows += [
        {
            "figure": "exact worst case of Theorem 5",
            "counters": t,
            "published": bounded_sum_epsilon(first),
            "found": worst_case(first, t),
        }
        for t in (1, 2, 3, 4, 6, 11, 21, 51, 101, 1001)
    ]
    return rows


def worst_case(first: float, counters: int) -> float:
    """Loss of t counters with Σ x <= m exactly: one at m with bit 0, others at m/(t−1) with bits 1."""
    if counters == 1:
        return first
    return first + (counters - 1) * log(1 + (exp(first) - 1) / (counters - 1))


def _draw_deployment(rows: Sequence[Row]) -> list[Figure]:
    exact = [row for row in rows if row["figure"] == "exact worst case of Theorem 5"]
    points = [(number(row, "counters"), number(row, "found")) for row in exact]
    single = points[0][1]
    lines = [
        Line("exact worst case", points),
        Line("Theorem 5", [(t, bounded_sum_epsilon(single)) for t, _ in points], dashed=True),
        Line("t ε'", [(t, t * single) for t, _ in points if t * single < 2], dashed=True),
    ]
    panel = Panel("ε = 1, γ = 0.2", "counters", "ε of a report about all", lines, log_x=True, log_y=False)
    return [Figure("microsoft-deployment", "What a report about several counters spends.", [panel])]


def _compare_deployment(rows: Sequence[Row]) -> list[Comparison]:
    first, _, theorem, *exact = rows
    return [
        Comparison(
            "Section 6: ε = 1 and γ = 0.2 make a report ε' = 0.686 private",
            "0.686",
            f"{number(first, 'found'):.3f}",
            "does not hold",
            "the formula of section 4 gives 0.569, which is better; docs/maths.md correction 6",
        ),
        Comparison(
            "Section 6: all apps together spend ε'' = 1.672",
            "1.672",
            f"{number(theorem, 'found'):.3f}",
            "does not hold",
            "it follows from ε' = 0.686",
        ),
        Comparison(
            "Theorem 5: ε'' = ε' + e^ε' − 1 for any number of counters",
            "upper bound",
            f"exactly {number(exact[1], 'found'):.3f} for two, {number(exact[-1], 'found'):.3f} for 1001",
            "reproduced",
            "the bound is the limit for many counters; for one or two, what they add up to is less",
        ),
    ]


EXPERIMENTS = (
    study(
        *("microsoft:fig1", "Microsoft Fig. 1", "Support of behaviour patterns"),
        {
            "segments": tuple(_SEGMENTS),
            "n": lambda settings: [settings.devices or (SMALL if settings.quick else _LARGE)],
        },
        _patterns,
        figures=_draw_patterns,
        compare=_compare_patterns,
        note=USAGE_NOTE,
    ),
    study(
        *("microsoft:deployment", "Microsoft sections 4 and 6, Theorem 5"),
        "What a report of the deployment spends",
        {},
        _deployment,
        figures=_draw_deployment,
        compare=_compare_deployment,
    ),
)
"""Figures about privacy."""
