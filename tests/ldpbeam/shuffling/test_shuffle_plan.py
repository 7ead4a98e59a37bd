"""The quick figures of a shuffler against the exact accounting, which is itself checked by enumeration."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from ldpbeam.channels.exact import log_above
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.shuffling.randomiser import Randomiser, many_epochs, one_epoch
from ldpbeam.shuffling.shuffle import central_epsilon
from ldpbeam.shuffling.shuffle_plan import _surely, planned_epsilon

BOTH = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
SETTINGS = [
    ("grr", 3, {"epsilon": 0.0001}, 300_000, 1),
    ("grr", 10, {"epsilon": 1.0}, 1_000, 1),
    ("grr", 400, {"epsilon": 5.0}, 40_000, 40),
    ("oue", 360, {"epsilon": 1.0}, 10_000, 2),
    ("oue", 9, {"epsilon": 10.0}, 3_000_000, 1),
    ("olh", 360, {"epsilon": 1.0}, 3_000, 30),
    ("sue", 20, {"epsilon": 3.0}, 100_000, 1),
    ("l_grr", 10, BOTH, 100_000, 1),
    ("l_grr", 2, {"epsilon_longitudinal": 2.0, "epsilon_first": 1.8}, 100_000, 1),
    ("l_osue", 3, BOTH, 100_000, 1),
    ("l_sue", 4, BOTH, 1_000_000, 1),
    ("l_grr", 400, BOTH, 300_000, 30),
    ("loloha", 24, {**BOTH, "g": 2}, 200_000, 1),
    ("loloha", 24, {**BOTH, "g": 2}, 100_000, 365),
    ("oue", 20, {"epsilon": 0.005}, 10_000, 365),
]


def randomiser(name: str, k: int, levels: dict[str, float], epochs: int) -> Randomiser:
    kind = protocol(name, k, Parameters(**levels))  # type: ignore[arg-type]
    found = one_epoch(kind) if epochs == 1 else many_epochs(kind)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "k", "levels", "devices", "epochs"), SETTINGS)
def test_it_is_at_most_a_twenty_fifth_above_the_exact_one(
    name: str, k: int, levels: dict[str, float], devices: int, epochs: int
) -> None:
    found = randomiser(name, k, levels, epochs)
    exact, planned = central_epsilon(found, devices, epochs), planned_epsilon(found, devices, epochs)
    assert exact <= planned <= 1.04 * exact
    assert exact < 0.9 * epochs * found.local, "the local level would agree with anything"


@pytest.mark.parametrize("devices", [1, 50, 1_000])
def test_where_few_hide_a_device_the_local_level_is_stated(devices: int) -> None:
    found = randomiser("loloha", 360, {**BOTH, "g": 3}, 1)
    assert planned_epsilon(found, devices) == found.local
    assert planned_epsilon(found, devices, 7) == 7 * found.local
    tight = Randomiser(Fraction(3), Fraction(1, 2))
    assert central_epsilon(tight, devices) <= planned_epsilon(tight, devices) <= log_above(Fraction(3))


@pytest.mark.parametrize("n", [10, 1_000, 2_000_000])
@pytest.mark.parametrize("q", [0.001, 0.3, 0.99, 1.0])
@pytest.mark.parametrize("failing", [1e-3, 5e-12])
def test_a_count_is_surely_reached(n: int, q: float, failing: float) -> None:
    """And is not much smaller than what is exactly reached so surely."""
    count = _surely(n, q, failing)
    assert binom.cdf(count - 1, n, q) <= failing
    exact = binom.ppf(failing, n, q)
    assert count <= exact
    assert exact - count <= 0.7 * np.sqrt(n * q * (1 - q)) + 6
