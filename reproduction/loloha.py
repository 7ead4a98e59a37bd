"""LOLOHA (Arcolezi et al., EDBT 2023): closed forms (Fig. 1, Fig. 2), costs (Table 1)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ldpbeam.protocols import FrequencyProtocol
from ldpbeam.protocols.hashed import optimal_g
from reproduction import paper_numbers
from reproduction.paper import Comparison, Figure, Panel, Row, distinct, mean
from reproduction.protocols import floor, frequency_protocol, two_rounds_of
from reproduction.study import panels, series, study

LEVELS = tuple(half / 2 for half in range(1, 11))
"""ε∞ of all figures."""

_ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
_N = 10_000
_K = 360


_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "RAPPOR": ("l_sue", {}),
    "L-OSUE": ("l_osue", {}),
    "L-GRR": ("l_grr", {"published": True}),
    "L-GRR exact": ("l_grr", {}),
    "BiLOLOHA": ("loloha", {"published": True, "hash_family": "affine", "g": 2}),
    "OLOLOHA": ("loloha", {"published": True, "hash_family": "affine"}),
    "OLOLOHA exact": ("loloha", {"hash_family": "linear"}),
}


def method(label: str, size: int, longitudinal: float, first: float) -> FrequencyProtocol[Any]:
    """One of the paper's methods, or one of ours, over a domain of that size."""
    name, more = _METHODS[label]
    return two_rounds_of(name, size, longitudinal, first, **more)


# --- Fig. 1


def _figure_1(alpha: float) -> list[Row]:
    rows: list[Row] = []
    for place, level in enumerate(LEVELS):
        first = alpha * level
        rows.append(
            {
                "alpha": alpha,
                "epsilon_longitudinal": level,
                "g": optimal_g(_K, first, "affine", level),
                "published": paper_numbers.LOLOHA_FIG_1[alpha][place]
                if alpha in paper_numbers.LOLOHA_FIG_1
                else None,
                "g exact, affine": optimal_g(_K, first, "affine"),
                "g exact, linear, k = 360": optimal_g(_K, first, "linear"),
            }
        )
    return rows


def _draw_figure_1(rows: Sequence[Row]) -> list[Figure]:
    drawn = [
        Panel(
            title,
            "ε∞",
            "g",
            series(rows, "epsilon_longitudinal", column, lambda row: f"α = {row['alpha']}"),
            log_y=False,
        )
        for title, column in (
            ("Eq. (6), published calibration", "g"),
            ("exact calibration", "g exact, affine"),
            ("exact, linear hashes, k = 360", "g exact, linear, k = 360"),
        )
    ]
    return [Figure("loloha-fig1", "The g of least V*.", drawn)]


def _compare_figure_1(rows: Sequence[Row]) -> list[Comparison]:
    checked = [row for row in rows if row["published"] is not None]
    same = sum(row["g"] == row["published"] for row in checked)
    return [
        Comparison(
            "Fig. 1: optimal g by Eq. (6) at α = 0.4, 0.5, 0.6",
            f"{len(checked)} points",
            f"{same} of {len(checked)} equal",
            "reproduced" if same == len(checked) else "differs",
        ),
        Comparison(
            "Eq. (6) is the g of least variance",
            "with the published second round",
            "with the exact one it is e^ε1 + 1, rounded, whatever ε∞ is",
            "holds with a correction",
            "the published second round wastes the more budget the larger g is (docs/maths.md correction 1)",
        ),
    ]


# --- Fig. 2

_CURVES = ("RAPPOR", "L-OSUE", "BiLOLOHA", "OLOLOHA", "OLOLOHA exact")


def _figure_2(alpha: float) -> list[Row]:
    return [
        {
            "alpha": alpha,
            "epsilon_longitudinal": level,
            "method": name,
            "variance": floor(method(name, _K, level, alpha * level), _N),
        }
        for name in _CURVES
        for level in LEVELS
    ]


def _draw_figure_2(rows: Sequence[Row]) -> list[Figure]:
    lines = partial(series, x="epsilon_longitudinal", y="variance", name="method")
    drawn = panels(rows, "alpha", ("α = {}", "ε∞", "V* (n = 10,000)"), lines)
    return [Figure("loloha-fig2", "Approximate variance of the two-round protocols.", drawn)]


def _compare_figure_2(rows: Sequence[Row]) -> list[Comparison]:
    def ratio(one: str, other: str) -> list[float]:
        return [
            mean(rows, "variance", alpha=a, epsilon_longitudinal=e, method=one)
            / mean(rows, "variance", alpha=a, epsilon_longitudinal=e, method=other)
            for a in distinct(rows, "alpha")
            for e in LEVELS
        ]

    theirs, ours = ratio("OLOLOHA", "L-OSUE"), ratio("OLOLOHA exact", "L-OSUE")
    gain = [100 * (1 - a / b) for a, b in zip(ours, theirs, strict=True)]
    last = ratio("BiLOLOHA", "L-OSUE")[-1], ratio("RAPPOR", "L-OSUE")[-1]
    return [
        Comparison(
            "Section 4: 'OLOLOHA … has a very similar utility as the optimized L-OSUE'",
            "very similar V*",
            f"V* of OLOLOHA is {min(theirs):.3f} to {max(theirs):.3f} times that of L-OSUE",
            "holds with a correction",
            f"with the exact calibration and linear hashes {min(ours):.3f} to {max(ours):.3f} times: up to "
            f"{max(gain):.0f} % less than as published",
        ),
        Comparison(
            "Section 4: in low privacy regimes BiLOLOHA and RAPPOR are the least accurate",
            "larger V* at ε∞ = 5, α = 0.6",
            f"BiLOLOHA {last[0]:.1f} and RAPPOR {last[1]:.1f} times L-OSUE",
            "reproduced" if min(last) > max(1.0, theirs[-1]) else "does not hold",
        ),
    ]


# --- Table 1

_COSTS: dict[str, tuple[str, str, str, str]] = {
    "OLOLOHA": ("⌈log2 g⌉", "n k", "g ε∞", "OLOLOHA"),
    "OLOLOHA exact": ("⌈log2 g⌉", "n + k log k", "g ε∞", "OLOLOHA exact"),
    "L-GRR": ("⌈log2 k⌉", "n", "k ε∞", "L-GRR exact"),
    "RAPPOR": ("k", "n k", "k ε∞", "RAPPOR"),
    "L-OSUE": ("k", "n k", "k ε∞", "L-OSUE"),
    "1BitFlipPM": ("d", "n b", "min(d + 1, b) ε∞", ""),
}
"""As Table 1 has them: bits, server time, budget; and the method that is measured."""

_SIZES = (96, 360, 1412)


def _table_1(rng: np.random.Generator, k: int, n: int) -> list[Row]:
    """Bits and caps of the protocols at ε∞ = 2, ε1 = 1, and the time to count n reports."""
    rows: list[Row] = []
    for name, (bits, cost, budget, made) in _COSTS.items():
        one = (
            method(made, k, 2.0, 1.0)
            if made
            else frequency_protocol("dbitflip_pm", k, epsilon_longitudinal=2.0, d=1)
        )
        seconds = _seconds(one, rng.integers(0, k, n))
        cap = one.guarantee.cap_over_inputs
        rows.append(
            {
                "method": name,
                "k": k,
                "bits, formula": bits,
                "bits of a report": one.device.payload_bits,
                "server time, formula": cost,
                "n": n,
                "measured seconds": seconds,
                "budget, formula": budget,
                "budget": cap,
            }
        )
    return rows


def _seconds(one: FrequencyProtocol[Any], values: np.ndarray[Any, Any]) -> float:
    """Processor time to count the reports of these devices, once compiled."""
    from ldpbeam.simulators.protocol_fleet import ProtocolFleet
    from ldpbeam.simulators.random_words import RandomWords

    parts = [part.payloads for part in ProtocolFleet(one, len(values), RandomWords(1)).reports(0, values)]
    counts = np.zeros(one.counter.counts_length, np.int64)
    one.counter.add(parts[0][:1], counts)
    started = time.process_time()
    for payloads in parts:
        one.counter.add(payloads, counts)
    one.counter.support_counts(counts)
    return time.process_time() - started


def _compare_table_1(rows: Sequence[Row]) -> list[Comparison]:
    def at(name: str, column: str) -> list[Any]:
        return [row[column] for row in rows if row["method"] == name]

    sizes = at("OLOLOHA", "k")
    hashed, linear = at("OLOLOHA", "bits of a report"), at("OLOLOHA exact", "bits of a report")
    slow, fast = at("OLOLOHA", "measured seconds"), at("OLOLOHA exact", "measured seconds")
    return [
        Comparison(
            "Table 1: a LOLOHA report has ⌈log2 g⌉ bits",
            "2 bits at g = 3, the hash function known to the server",
            f"with the function {hashed[-1]} bits (affine) and {linear[-1]} (linear) at k = {sizes[-1]}",
            "holds with a correction",
            "devices here have no identifier by which a server could know their function",
        ),
        Comparison(
            "Table 1: the server's time is n k",
            "n k",
            f"affine {slow[-1] / max(slow[0], 1e-9):.0f} times as long at k = {sizes[-1]} as at {sizes[0]}, "
            f"linear {fast[-1] / max(fast[0], 1e-9):.1f} times",
            "holds with a correction",
            "linear hashes are counted in one table, whatever k is; times are measured and not repeatable",
        ),
        Comparison(
            "Table 1 and Theorem 3.5: worst-case loss g ε∞",
            "g ε∞, k ε∞, min(d + 1, b) ε∞",
            f"caps at ε∞ = 2: {', '.join(str(x) for x in at('OLOLOHA exact', 'budget'))} (OLOLOHA)",
            "holds with a correction",
            "only for two sequences of memoised inputs of which one is the other renamed (docs/maths.md "
            "correction 5); with d = 1 dBitFlipPM's cap is ε∞, since one bit spends ε∞/2",
        ),
    ]


EXPERIMENTS = (
    study(
        *("loloha:fig1", "LOLOHA Fig. 1", "The number of hash symbols of least variance"),
        {"alpha": _ALPHAS},
        _figure_1,
        figures=_draw_figure_1,
        compare=_compare_figure_1,
    ),
    study(
        *("loloha:fig2", "LOLOHA Fig. 2", "Approximate variance in closed form"),
        {"alpha": _ALPHAS},
        _figure_2,
        figures=_draw_figure_2,
        compare=_compare_figure_2,
    ),
    study(
        *("loloha:table1", "LOLOHA Table 1", "Bits of a report, the server's time, the budget"),
        {"k": _SIZES, "n": lambda settings: [settings.devices or (20_000 if settings.quick else 200_000)]},
        _table_1,
        compare=_compare_table_1,
        measured=True,
        note="Times are processor seconds of this machine, with its other load; no second run repeats them.",
    ),
)
"""What needs no data set; :mod:`.loloha_data` has the rest."""
