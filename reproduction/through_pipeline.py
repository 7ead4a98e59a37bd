"""One panel of each paper through everything that a deployment runs: devices, files, the Beam pipeline.

A fleet writes its reports to files, the bounded pipeline reads them on Beam's local runner, and what it
published is compared with the truth. The other modules draw supports directly; here both stand side by side.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.arrays import Floats
from ldpbeam.collection.file import parse_collection
from ldpbeam.simulators.population.joint import Joint
from reproduction import experiment, loloha
from reproduction.consistency import people_of as people_of_consistency
from reproduction.data import attributes
from reproduction.loloha_data import people_of as people_of_loloha
from reproduction.microsoft import DAY
from reproduction.paper import Comparison, Experiment, Figure, Panel, Row, Settings, number
from reproduction.study import series, study

_REPEATS = 20
"""Runs of the fast path that one run through the pipeline is compared with."""

_STANDARD_ERRORS = 6.0
"""How far a point may lie apart. Of fifty points one does so by chance in one panel of 2,000: the noise is
that of twenty runs, which makes it Student's t with 19 degrees of freedom, of which 9e-6 lie further out."""

_TOGETHER = 4.5
"""How far the mean ratio of all points may lie from 1, in its standard errors (chance 1e-5)."""


@dataclass(frozen=True, eq=False)
class FixedPopulation:
    """A population that holds what it is given, int32 (epochs, devices)."""

    held: NDArray[np.int32]
    domain_size: int
    labels: tuple[str, ...] | None = None

    @property
    def devices(self) -> int:
        """Number of devices."""
        return int(self.held.shape[1])

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return int(self.held.shape[0])

    def values(self) -> Iterator[NDArray[np.int32]]:
        """The epochs in order."""
        yield from self.held


def published_by_pipeline(
    text: str, people: FixedPopulation | Joint, seed: int
) -> dict[str, tuple[Floats, Floats]]:
    """Simulate devices into files, run the bounded pipeline over them, and read what it published."""
    import pyarrow.dataset as ds

    from ldpbeam.job.config import RunConfig
    from ldpbeam.job.inputs import match_inputs, shard_bits_for
    from ldpbeam.pipelines.run import run
    from ldpbeam.simulators.deliver.simulate import simulate

    collection = parse_collection(text)
    with tempfile.TemporaryDirectory() as temporary:
        fleet, output = Path(temporary, "fleet"), Path(temporary, "out")
        written = simulate(collection, people, fleet, seed=seed)
        matched = match_inputs(str(fleet / "reports"))
        bits = shard_bits_for(matched.size)
        done = run(RunConfig.parsed((collection,), files=matched.files, output=str(output), shard_bits=bits))
        if not done.accounting.total.counted == written.reports:
            raise RuntimeError(
                f"{written.reports} reports were sent, {done.accounting.total.counted} counted"
            )
        table = ds.dataset(output / "estimates").to_table()
    table = table.sort_by([("epoch", "ascending"), ("attribute", "ascending"), ("value", "ascending")])
    names = np.array([name or "" for name in table["attribute"].to_pylist()])

    def rows(column: str, name: str) -> Floats:
        values = np.array(table[column].to_pylist(), np.float64)[names == name]
        by_epoch: Floats = values.reshape(people.epochs, -1)
        return by_epoch

    return {
        name: (rows("estimate", name), rows("consistent", name)) for name in dict.fromkeys(names.tolist())
    }


def _yaml(domain: str, keys: dict[str, Any]) -> str:
    lines = ["name: panel", domain, *(f"{key}: {value}" for key, value in keys.items())]
    return "\n".join([*lines, "epoch: {length: 1d, origin: 2026-01-01T00:00:00Z}"])


def _smaller(settings: Settings, devices: int, epochs: int) -> Settings:
    """Sizes of a panel: those asked for, else these; a tenth of both where it is to be quick."""
    part = 10 if settings.quick else 1
    return Settings(
        seed=settings.seed,
        data=settings.data,
        devices=settings.devices or devices // part,
        epochs=settings.epochs or max(2, epochs // part),
    )


def _compared(paper: str, method: str, level: float, ours: float, fast: Sequence[float]) -> Row:
    noise = float(np.std(fast, ddof=1)) * sqrt(1 + 1 / len(fast))
    return {
        "paper": paper,
        "method": method,
        "epsilon": level,
        "pipeline": ours,
        "fast": float(np.mean(fast)),
        "noise": noise,
        "standard errors apart": abs(ours - float(np.mean(fast))) / noise,
    }


# --- LOLOHA Fig. 3 (Syn), α = 0.5

_LOLOHA: dict[str, dict[str, Any]] = {
    "RAPPOR": {"protocol": "l_sue"},
    "L-OSUE": {"protocol": "l_osue"},
    "L-GRR": {"protocol": "l_grr", "calibration": "published"},
    "BiLOLOHA": {"protocol": "loloha", "calibration": "published", "hash_family": "affine", "g": 2},
    "OLOLOHA": {"protocol": "loloha", "calibration": "published", "hash_family": "affine"},
}


def _of_loloha(settings: Settings, method: str, level: float) -> list[Row]:
    small = _smaller(settings, 10_000, 120)
    people = people_of_loloha("syn", small)
    keys = {**_LOLOHA[method], "epsilon_longitudinal": level, "epsilon_first": level / 2}
    held = np.stack([people.values(t) for t in range(people.epochs)]).astype(np.int32)
    text = _yaml(f"domain: {{size: {people.size}}}", keys)
    raw, _ = published_by_pipeline(text, FixedPopulation(held, people.size), settings.seed)[""]
    fast = []
    for run in range(_REPEATS):
        rows = experiment("loloha:fig3:syn").compute(small, {"group": method, "level": level, "run": run})
        fast += [
            number(row, "mse")
            for row in rows
            if (row["alpha"], row["method"], row["estimate"]) == (0.5, method, "unbiased")
        ]
    return [_compared("LOLOHA", method, level, float(((raw - people.truth) ** 2).mean()), fast)]


# --- Consistency Fig. 4 (Bfive's shape), Norm-Sub


def _of_consistency(settings: Settings, method: str, level: float) -> list[Row]:
    small = _smaller(settings, 20_000, 20)
    people = people_of_consistency("bfive", small)
    protocol = {"L-OSUE": "l_osue", "RAPPOR": "l_sue", "L-OUE": "l_oue"}[method]
    keys = {"protocol": protocol, "epsilon_longitudinal": level, "epsilon_first": 0.4 * level}
    held = np.stack([people.values(t) for t in range(people.epochs)]).astype(np.int32)
    text = _yaml(f"domain: {{size: {people.size}}}", {**keys, "consistency": "norm_sub"})
    _, histogram = published_by_pipeline(text, FixedPopulation(held, people.size), settings.seed)[""]
    fast = []
    for run in range(_REPEATS):
        rows = experiment("consistency:fig4").compute(
            small, {"protocol": protocol, "level": level, "run": run}
        )
        fast += [number(row, "mse") for row in rows if row["method"] == "norm_sub"]
    return [_compared("Consistency", method, level, float(((histogram - people.truth) ** 2).mean()), fast)]


# --- ALLOMFREE Fig. 4 (Nursery), ε1 = 0.6 ε∞


def _of_allomfree(settings: Settings, method: str, level: float) -> list[Row]:
    values, sizes = attributes("nursery", settings.data)
    values = values[: settings.devices]
    keys = {"epsilon_longitudinal": level, "epsilon_first": 0.6 * level, "allocation": "sample"}
    keys |= (
        {"allocation": "allomfree", "calibration": "published"}
        if method == "allomfree"
        else {"protocol": method}
    )
    listed = "".join(f"\n  - {{name: a{j}, domain: {{size: {k}}}}}" for j, k in enumerate(sizes))
    columns = values.T.astype(np.int32)[:, None, :]
    people = Joint(tuple(FixedPopulation(column, k) for column, k in zip(columns, sizes, strict=True)))
    estimates = published_by_pipeline(_yaml(f"attributes:{listed}", keys), people, settings.seed)
    squares = []
    for j, k in enumerate(sizes):
        truth = np.bincount(values[:, j], minlength=k) / len(values)
        squares.append(float(((estimates[f"a{j}"][0][0] - truth) ** 2).mean()))
    fast = []
    for run in range(_REPEATS):
        cells = {"alpha": 0.6, "level": level, "runs": 1, "block": run}
        rows = experiment("allomfree:table4:nursery").compute(settings, cells)
        fast += [number(r, "mse") for r in rows if (r["method"], r["estimate"]) == (method, "unbiased")]
    return [_compared("ALLOMFREE", method, level, float(np.mean(squares)), fast)]


# --- Microsoft Fig. 3 (a): constant counters


def _of_microsoft(settings: Settings, method: str, level: float) -> list[Row]:
    """Several fleets, since one error of one mean says little; the fast path's errors are of as many runs."""
    n = settings.devices or (30_000 if settings.quick else 300_000)
    runs = settings.repeats(60)
    gamma = {"1BitRRPM": 0, "1BitRRPM+OP(1/10)": 1 / 10, "1BitRRPM+OP(1/3)": 1 / 3}.get(method)
    keys: dict[str, Any] = {"protocol": "laplace_mean", "epsilon": level}
    if gamma is not None:
        keys = {"protocol": "one_bit_rrpm", "epsilon_longitudinal": level, "gamma": gamma}
    text = _yaml(f"domain: {{range: {{max: {DAY}}}}}", keys)
    people = FixedPopulation(np.full((1, n), DAY // 2, np.int32), DAY + 1)
    errors = [
        abs(float(published_by_pipeline(text, people, settings.seed * 1000 + run)[""][0][0, 0]) - DAY / 2)
        for run in range(runs)
    ]
    drawn = Settings(seed=settings.seed, data=settings.data, devices=n)
    rows = experiment("microsoft:fig3a").compute(drawn, {"mechanism": method, "level": level, "runs": 400})
    # |error| of a normal deviates by sqrt(π/2 − 1) times its mean.
    noise = number(rows[0], "theory") * sqrt(pi / 2 - 1) * sqrt(1 / runs + 1 / 400)
    ours, fast = float(np.mean(errors)), number(rows[0], "error")
    return [
        {
            "paper": "Microsoft",
            "method": method,
            "epsilon": level,
            "pipeline": ours,
            "fast": fast,
            "noise": noise,
            "standard errors apart": abs(ours - fast) / noise,
        }
    ]


# --- what they have in common


def _draw(paper: str, place: str, rows: Sequence[Row]) -> list[Figure]:
    lines = series(rows, "epsilon", "pipeline", "method")
    names = {line.name: f"{line.name}, drawn" for line in lines}
    lines += series(
        rows, "epsilon", "fast", lambda row: names[str(row["method"])], dashed=tuple(names.values())
    )
    panel = Panel(place, "ε", "error", lines)
    return [Figure(f"pipeline-{paper}", f"{place}: published by the pipeline, and drawn directly.", [panel])]


def compare(place: str, rows: Sequence[Row]) -> list[Comparison]:
    """Every point by itself, and the mean ratio of all, which sees an error that no point is sure of."""
    apart = max(number(row, "standard errors apart") for row in rows)
    fast = np.array([number(row, "fast") for row in rows])
    ratio = float((np.array([number(row, "pipeline") for row in rows]) / fast).mean())
    noise = float(np.sqrt(((np.array([number(row, "noise") for row in rows]) / fast) ** 2).sum())) / len(rows)
    alike = apart < _STANDARD_ERRORS and abs(ratio - 1) < _TOGETHER * noise
    return [
        Comparison(
            f"{place}, through files and the Beam pipeline",
            "what is drawn directly",
            f"{len(rows)} errors, at most {apart:.1f} standard errors apart; "
            f"on average {ratio:.3f} ± {noise:.3f} times as large",
            "reproduced" if alike else "differs",
        )
    ]


def _experiment(
    paper: str,
    place: str,
    methods: Sequence[str],
    levels: Sequence[float],
    compute: Callable[[Settings, str, float], list[Row]],
    files: Sequence[str] = (),
) -> Experiment:
    return study(
        *("pipeline:{paper}", place, "One panel through devices, files and the Beam pipeline"),
        {"method": methods, "level": levels},
        compute,
        figures=_draw,
        compare=compare,
        constants={"paper": paper, "place": place},
        files=files,
        note="With --quick a tenth of the devices and epochs.",
    )


_FLIPS = ("1BitRRPM", "1BitRRPM+OP(1/10)", "1BitRRPM+OP(1/3)", "Laplace")

EXPERIMENTS = (
    _experiment("loloha", "LOLOHA Fig. 3 (syn), α = 0.5", tuple(_LOLOHA), loloha.LEVELS, _of_loloha),
    _experiment(
        "consistency",
        "Consistency Fig. 4 (Bfive's shape), Norm-Sub",
        ("L-OSUE", "RAPPOR", "L-OUE"),
        loloha.LEVELS,
        _of_consistency,
    ),
    _experiment(
        "allomfree",
        "ALLOMFREE Fig. 4 (below)",
        ("l_sue", "l_oue", "l_osue", "l_soue", "allomfree"),
        tuple(half / 2 for half in range(1, 9)),
        _of_allomfree,
        ("nursery.csv",),
    ),
    _experiment(
        "microsoft", "Microsoft Fig. 3 (a)", _FLIPS, (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), _of_microsoft
    ),
)
"""A panel of each paper."""
