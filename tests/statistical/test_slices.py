"""Experiments from counts to the verdict of ``compare``: two arms, whose devices keep their values.

Support counts are drawn directly, of devices that are drawn from one population. With an effect of 4 standard
errors a verdict at 5 % is right with probability 0.979, in 196 of 200 experiments on average; without one it
is silent in 190. Limits are those that a binomial count misses with probability below 10⁻⁸: of this file a
false alarm has probability below 4·10⁻⁸.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom, norm

import ldpbeam
from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import estimate_epoch, make_consistent
from ldpbeam.slice_support import SlicedSupport
from ldpbeam.tables import epoch_table, fixed_columns, table_by_slice
from tests.ldpbeam.cli.calling import told
from tests.narrow import present

EXPERIMENTS, DEVICES, EPOCHS, MISSED = 200, {"control": 30_000, "treatment": 10_000}, 4, 1e-8
FREQUENCY, SEARCH = np.array([0.5, 0.2, 0.3]), 1
YAML = """\
name: first_screen
domain: {labels: [home, search, feed]}
epoch: {length: 1d, origin: 2026-01-01T00:00:00Z, count: 7}
slices: {arm: [control, treatment]}
"""
LEVELS = {
    "oue": "protocol: oue\nepsilon: 5\n",
    "l_osue": "protocol: l_osue\nepsilon_longitudinal: 4\nepsilon_first: 2\n",
}


def rounds(collection: Collection) -> tuple[np.ndarray, np.ndarray]:
    """(own, other) of what is kept, certain where nothing is, and of what is drawn from that for a report."""
    part = collection.estimators[0]
    whole = np.array([float(present(part.support).own), float(present(part.support).other)])
    if part.lasting is None:
        return np.array([1.0, 0.0]), whole
    kept = np.array([float(part.lasting.own), float(part.lasting.other)])
    slope = (whole[0] - whole[1]) / (kept[0] - kept[1])
    return kept, np.array([whole[0] + slope * (1 - kept[0]), whole[0] - slope * kept[0]])


def std_error(collection: Collection, effect: float) -> float:
    """Of the difference of means over all epochs, of devices that are drawn: reports and memos are coins."""
    kept, drawn = rounds(collection)
    variance = 0.0
    for arm, devices in DEVICES.items():
        frequency = FREQUENCY[SEARCH] + effect * (arm == "treatment")
        chance = kept[1] + frequency * (kept[0] - kept[1])
        lasting = chance * (1 - chance) / (kept[0] - kept[1]) ** 2
        fresh = chance * drawn[0] * (1 - drawn[0]) + (1 - chance) * drawn[1] * (1 - drawn[1])
        fresh /= ((kept[0] - kept[1]) * (drawn[0] - drawn[1])) ** 2
        variance += (lasting + fresh / EPOCHS) / devices
    return float(np.sqrt(variance))


def write(folder: Path, collection: Collection, effect: float, rng: np.random.Generator) -> None:
    """The results by slice of one experiment."""
    kept, drawn = rounds(collection)
    supporting = {}
    for arm, devices in DEVICES.items():
        moved = FREQUENCY.copy()
        if arm == "treatment":
            moved += effect * np.array([-1, 1, 0])
        held = rng.multinomial(devices, moved)
        supporting[arm] = rng.binomial(held, kept[0]) + rng.binomial(devices - held, kept[1])
    digests = sorted(collection.slice_digests)
    arms = [dict(collection.slice_digests[digest])["arm"] for digest in digests]
    sizes, fixed, tables = np.array([DEVICES[arm] for arm in arms]), fixed_columns(collection), []
    for epoch in range(EPOCHS):
        rows = [
            rng.binomial(supporting[arm], drawn[0]) + rng.binomial(DEVICES[arm] - supporting[arm], drawn[1])
            for arm in arms
        ]
        support = SlicedSupport(np.array(digests, np.uint64), np.array(rows), sizes, np.zeros(0, np.int64))
        result = make_consistent(collection, estimate_epoch(collection, epoch, support))
        tables.append(table_by_slice(collection, result, lambda one: epoch_table(collection, one, fixed)))
    pq.write_table(pa.concat_tables(tables), folder / "slices" / "all.parquet")


@pytest.mark.thorough
@pytest.mark.parametrize("name", LEVELS)
def test_experiments_end_right(name: str, tmp_path: Path) -> None:
    """Errors for the given devices alone, as published, would say something in too many of them."""
    (tmp_path / "slices").mkdir()
    (tmp_path / "c.yaml").write_text(YAML + LEVELS[name])
    collection, rng = ldpbeam.load_collection(tmp_path / "c.yaml"), np.random.default_rng(11)
    asked = ("--slice", "arm=treatment", "--against-slice", "arm=control", "--value", "search", "--json")
    effect = 4 * std_error(collection, 4 * std_error(collection, 0.0))
    right, alarms, narrow = 0, 0, 0
    for real in (True, False):
        for _ in range(EXPERIMENTS):
            write(tmp_path, collection, effect * real, rng)
            document = json.loads(told("compare", tmp_path, "--collection", tmp_path / "c.yaml", *asked))
            (verdict,) = document["chosen"]
            right += real and verdict["changed"] and verdict["change"] > 0
            alarms += verdict["changed"] and not real
            if name == "oue" and not real:
                tables = [ldpbeam.read(tmp_path, slice={"arm": arm}) for arm in DEVICES]
                errors = [np.array(table["std_error"][SEARCH::3]) for table in tables]
                narrow += abs(verdict["change"]) > norm.ppf(0.975) * np.hypot(*errors).mean() / EPOCHS**0.5
    most = binom.isf(MISSED, EXPERIMENTS, 0.05)
    assert right >= binom.ppf(MISSED, EXPERIMENTS, norm.cdf(4 - norm.ppf(0.975)))
    assert alarms <= most
    assert name != "oue" or narrow > most
