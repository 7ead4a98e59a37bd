"""Fleets whose devices hold several attributes: the same bytes as their devices, and sound statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.estimates import estimate, variance
from ldpbeam.protocols import PROTOCOLS, FrequencyProtocol, Parameters
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS, allocate
from ldpbeam.protocols.attributes.base import AttributeProtocol
from ldpbeam.protocols.part_estimator import part_estimators
from ldpbeam.simulators.deliver.simulate import simulate
from ldpbeam.simulators.population.joint import Joint, joint_population
from ldpbeam.simulators.population.specs import ABSENT
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from tests.narrow import present
from tests.simulators.devices import Devices

FALSE_ALARM = 1e-8
"""Probability that a sound fleet fails one statistical test of this file."""

LEVELS = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
COUNTING = [name for name, kind in PROTOCOLS.items() if issubclass(kind, FrequencyProtocol)]
ALL = [(a, n) for a in ("sample", "split") for n in COUNTING] + [("allomfree", None)]


def build(allocation: str, name: str | None, sizes: Sequence[int], **levels: float) -> AttributeProtocol[Any]:
    kind = PROTOCOLS[name] if name else ALLOCATIONS[allocation]
    chosen: dict[str, Any] = {k: (LEVELS | levels)[k] for k in kind.PARAMETERS if k in LEVELS}
    if "d" in kind.PARAMETERS:
        chosen["d"] = 2
    return allocate(allocation, name, sizes, Parameters(**chosen))


def history(sizes: Sequence[int], devices: int, epochs: int) -> NDArray[np.int32]:
    """Values that change and return, with absences; shape (epochs, devices, attributes)."""
    draw = np.random.default_rng(1)
    columns = [draw.integers(0, size, (epochs, devices)) for size in sizes]
    values = np.stack(columns, axis=2)
    values[draw.random((epochs, devices)) < 0.2] = ABSENT
    return values.astype(np.int32)


@pytest.mark.parametrize(("allocation", "name"), ALL)
@pytest.mark.parametrize("sizes", [(2, 3), (9, 4, 30)])
@pytest.mark.cases(30)
def test_a_fleet_sends_what_its_devices_send(
    allocation: str, name: str | None, sizes: tuple[int, ...]
) -> None:
    kind, random_words, devices = build(allocation, name, sizes), RandomWords(7), 9
    fleet = ProtocolFleet(kind, devices, random_words, rows_per_batch=4)
    single = Devices(kind, devices, random_words)
    for epoch, values in enumerate(history(sizes, devices, 5), 3):
        found = [payload.tobytes() for batch in fleet.reports(epoch, values) for payload in batch.payloads]
        assert found == [
            single.payload(epoch, device, tuple(map(int, value)))
            for device, value in enumerate(values)
            if value[0] != ABSENT
        ]
    memoised = [sum(len(part.answers) for part in memo.parts) for memo in single.memos]
    assert fleet.memoised_inputs().tolist() == memoised


def test_attributes_are_drawn_evenly_and_for_life() -> None:
    devices = 30_000
    kind = build("sample", "grr", (2, 3, 4))
    fleet = ProtocolFleet(kind, devices, RandomWords(3))
    values = np.zeros((devices, 3), np.int32)
    drawn = [next(iter(fleet.reports(epoch, values))).payloads[:, 0] for epoch in range(2)]
    assert len(drawn[0]) == len(drawn[1]) == devices
    assert np.array_equal(drawn[0], drawn[1])
    counts = np.bincount(drawn[0], minlength=3)
    z = norm.isf(FALSE_ALARM / 6)
    assert np.abs(counts / devices - 1 / 3).max() < z * np.sqrt(2 / 9 / devices)


def test_values_that_do_not_fit() -> None:
    fleet = ProtocolFleet(build("split", "grr", (2, 3)), 2, RandomWords(1))
    good = np.array([[1, 2], [0, 0]], np.int32)
    assert len(next(iter(fleet.reports(0, good)))) == 2
    for bad in (
        [[1, 2]],
        [1, 2],
        [[1, 3], [0, 0]],
        [[2, 0], [0, 0]],
        [[1, 2], [-1, 0]],
        [[-2, -2], [0, 0]],
    ):
        with pytest.raises(ValueError, match=r"values|attributes"):
            fleet.reports(1, np.array(bad, np.int32))


# Bias and variance


Counted = tuple[NDArray[np.int64], Any]


def counted(kind: AttributeProtocol[Any], values: NDArray[np.int32], seed: int) -> list[Counted]:
    """Support of each attribute's values, and the reports behind it."""
    counts = np.zeros(kind.counter.counts_length, np.int64)
    fleet = ProtocolFleet(kind, len(values), RandomWords(seed))
    for batch in fleet.reports(0, values):
        assert not kind.counter.check(batch.payloads).any()
        kind.counter.add(batch.payloads, counts)
    return [
        (part.counter.support_counts(cells), part.counter.report_counts(cells, n))
        for part, (cells, n) in zip(kind.parts, kind.counter.part_counts(counts, len(values)), strict=True)
    ]


def people(sizes: Sequence[int], devices: int, seed: int = 2) -> NDArray[np.int32]:
    draw = np.random.default_rng(seed)
    skewed = [draw.integers(0, size, devices) * draw.integers(0, 2, devices) for size in sizes]
    return np.stack(skewed, axis=1).astype(np.int32)


@pytest.mark.parametrize(
    ("allocation", "name"),
    [
        ("sample", "loloha"),
        ("sample", "dbitflip"),
        ("split", "l_osue"),
        ("split", "loloha"),
        ("allomfree", None),
    ],
)
def test_estimates_are_unbiased_and_wrong_parameters_are_not(allocation: str, name: str | None) -> None:
    sizes, devices = (3, 8, 25), 200_000
    kind, values = build(allocation, name, sizes), people(sizes, devices)
    limit = norm.isf(FALSE_ALARM / (2 * sum(sizes)))
    worst_right, worst_wrong = errors(kind, values, 1), errors(kind, values, Fraction(9, 10))
    assert worst_right < limit
    assert worst_wrong > limit, "the test would not see a wrong `other`"


def errors(kind: AttributeProtocol[Any], values: NDArray[np.int32], factor: Fraction | int) -> float:
    """The largest error of all estimates, in standard errors; with ``other`` multiplied by a factor."""
    worst = 0.0
    for j, (support, n) in enumerate(counted(kind, values, 1)):
        right = present(part_estimators(kind)[j].support)
        truth = np.bincount(values[:, j], minlength=support.size) / len(values)
        found = estimate(support, n, replace(right, other=right.other * factor)).frequency
        worst = max(worst, float(np.abs((found - truth) / np.sqrt(variance(truth, n, right))).max()))
    return worst


# Populations


def agreed(allocation: str = "sample", protocol: str = "loloha") -> Collection:
    return Collection(
        name="people",
        version=1,
        domain=None,
        protocol_name=protocol,
        parameters=Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0),
        epochs=Epochs(3600, 0, 100),
        attributes=(
            Attribute("age", Domain(3)),
            Attribute("home_region", Domain(2, ("north", "south"))),
        ),
        allocation=allocation,
    )


def drawn(spec: str, devices: int | None = None, epochs: int = 3, seed: int = 1) -> Joint:
    return joint_population(
        spec,
        attributes=agreed().histograms,
        devices=devices,
        epochs=epochs,
        random_words=RandomWords(seed),
    )


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a,b.csv"
    lines = [
        "home region,other,age",
        *(f"{'north' if i % 3 else 'south'},x,{i % 3 + 5}" for i in range(30)),
        ",y,",
    ]
    path.write_text("\n".join(lines) + "\n")
    fixed = list(drawn(f"table:{path}").values())
    assert len(fixed) == 3
    assert fixed[0][:3].tolist() == [[0, 1], [1, 0], [2, 0]]
    assert fixed[0][30].tolist() == [ABSENT, ABSENT]
    assert all(np.array_equal(fixed[0], later) for later in fixed)
    dealt = list(drawn(f"table:{path},permute").values())
    assert not np.array_equal(dealt[0], dealt[1])
    for values in dealt:  # rows stay whole
        assert sorted(map(tuple, values.tolist())) == sorted(map(tuple, fixed[0].tolist()))
    assert len(next(drawn(f"table:{path}", 4).values())) == 4
    notes: list[str] = []
    attributes = [("home_region", Domain(2)), ("age", Domain(3))]
    words = RandomWords(1)
    joint_population(
        f"table:{path}", attributes=attributes, devices=None, epochs=1, random_words=words, note=notes.append
    )
    assert notes == [f"{path}: 1 row without values: the device is absent"]
    for header in ("age,index:home_region", "age,index:home region"):
        path.write_text(f"{header}\n2,1\n0,0\n")
        assert next(drawn(f"table:{path}").values()).tolist() == [[2, 1], [0, 0]]
    path.write_text("age,home region,home_region\n6,north,south\n5,south,north\n")  # its own name comes first
    assert next(drawn(f"table:{path}").values()).tolist() == [[1, 1], [0, 0]]
    path.write_text("age,home_region\n1,north\n,south\n")
    with pytest.raises(ValueError, match=r"csv:3: .*'age' is empty"):
        drawn(f"table:{path}")
    path.write_text("age\n1\n")
    with pytest.raises(ValueError, match="home_region"):
        drawn(f"table:{path}")
    with pytest.raises(ValueError, match="several attributes"):
        drawn(f"csv:{path}:age", 1)


def test_a_simulation_on_disk(tmp_path: Path) -> None:
    collection, people = agreed("split"), drawn("syn", 50)
    done = simulate(collection, people, tmp_path, seed=3, truth=True)
    assert done.reports == 150
    assert done.mean_memoised_inputs > 1.0
    table = pq.read_table(tmp_path / "truth.parquet")
    for epoch, values in enumerate(people.values()):
        for j, (name, domain) in enumerate(collection.histograms):
            rows = [r for r in table.to_pylist() if (r["epoch"], r["attribute"]) == (epoch, name)]
            assert [r["label"] for r in rows] == [domain.label(v) for v in range(domain.size)]
            expected = np.bincount(values[:, j], minlength=domain.size).tolist()
            assert [r["count"] for r in rows] == expected
            assert {r["n"] for r in rows} == {50}
