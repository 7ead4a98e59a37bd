"""Every method keeps its promises, on any input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.arrays import Floats
from ldpbeam.consistency import METHODS, consistent
from ldpbeam.consistency.base import LARGEST_ESTIMATE, Method, Noise

NORMALISING = [name for name, method in METHODS.items() if method.sums_to_one]

methods = st.sampled_from(list(METHODS.values()))
numbers = (
    st.floats(-0.2, 1.2)
    | st.integers(-3, 3).map(lambda tenths: tenths / 10)
    | st.floats(-LARGEST_ESTIMATE, LARGEST_ESTIMATE)
    | st.floats(-1e-300, 1e-300)
)
estimate_lists = (
    st.lists(numbers, min_size=1, max_size=30)
    | st.lists(st.floats(-1.0, -1e-9), min_size=1, max_size=10)
    | st.tuples(numbers, st.integers(1, 30)).map(lambda tie: [tie[0]] * tie[1])
)


@st.composite
def noises(draw: st.DrawFn) -> Noise:
    n = draw(st.sampled_from([0, 1, 2, 50, 1024, 1025, 10**4, 10**8, 10**12]) | st.integers(0, 10**6))
    grain = 2**20
    other = draw(st.integers(0, grain - 1))
    own = draw(st.integers(other + 1, grain) | st.just(grain) | st.just(other + 1))
    return Noise(n, own / grain, other / grain, draw(st.booleans()))


@given(methods, estimate_lists, noises())
def test_promises(method: Method, estimates: list[float], noise: Noise) -> None:
    given_array = np.array(estimates)
    before = given_array.copy()

    result = method.apply(given_array, noise)

    assert result.shape == given_array.shape
    assert result.dtype == np.float64
    assert np.all(np.isfinite(result))
    assert not np.shares_memory(result, given_array)
    np.testing.assert_array_equal(given_array, before)
    if method.non_negative:
        assert np.all(result >= 0.0)
    if method.sums_to_one:
        # Only `norm` keeps huge estimates, and then the sum is as exact as they are.
        size = 1.0 if method.non_negative else max(1.0, float(np.max(np.abs(given_array))))
        assert abs(math.fsum(result) - 1.0) <= 1e-12 * size * len(estimates)
    np.testing.assert_array_equal(method.apply(given_array, noise), result)


@given(
    methods.filter(lambda method: method.name != "ordered"),
    estimate_lists,
    noises(),
    st.randoms(use_true_random=False),
)
def test_the_order_of_values_does_not_matter(
    method: Method, estimates: list[float], noise: Noise, random: object
) -> None:
    if method.name == "norm_cut":
        estimates = sorted(set(estimates))  # it breaks ties by index, and says so
    order = list(range(len(estimates)))
    random.shuffle(order)  # type: ignore[attr-defined]
    values = np.array(estimates)

    straight = method.apply(values, noise)[order]
    shuffled = method.apply(values[order], noise)

    scale = 1.0 if method.sums_to_one and method.non_negative else max(1.0, np.max(np.abs(values)))
    np.testing.assert_allclose(shuffled, straight, rtol=0.0, atol=1e-9 * scale)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e101])
def test_what_is_not_a_number_is_refused(name: str, bad: float) -> None:
    with pytest.raises(ValueError, match="at index 1"):
        consistent(name, np.array([0.5, bad, 0.5]), Noise(100, 0.6, 0.2, False))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shape", [(0,), (2, 2), ()])
def test_what_is_not_a_histogram_is_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape"):
        consistent(name, np.zeros(shape), Noise(100, 0.6, 0.2, False))


def test_an_unknown_method_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'nrom_sub'.*norm_sub") as caught:
        consistent("nrom_sub", np.ones(2), Noise(100, 0.6, 0.2, False))

    assert all(name in str(caught.value) for name in METHODS)


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("name", METHODS)
def test_no_reports(name: str, exclusive: bool) -> None:
    estimates = np.array([0.7, -0.1, 0.0, 0.2])

    result = consistent(name, estimates, Noise(0, 0.6, 0.2, exclusive))

    if name == "none":
        np.testing.assert_array_equal(result, estimates)
    elif METHODS[name].sums_to_one:
        np.testing.assert_array_equal(result, np.full(4, 0.25))
    else:
        np.testing.assert_array_equal(result, np.zeros(4))


@pytest.mark.parametrize("name", ["mle_apx", "mle", "power", "ordered"])
def test_methods_that_model_counts_take_the_nearest_possible_one(name: str) -> None:
    noise = Noise(1000, 0.5, 0.1, False)  # counts of 0 and 1000 are estimates of -0.25 and 2.25
    impossible = np.array([-40.0, 7.0, 5.0, 0.2])
    possible = np.array([-0.25, 2.25, 2.25, 0.2])

    np.testing.assert_allclose(
        consistent(name, impossible, noise), consistent(name, possible, noise), atol=1e-12
    )


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("name", NORMALISING)
@pytest.mark.parametrize("estimate", [-1e100, -0.3, 0.0, 0.4, 1.0, 1e100])
def test_one_value_has_all_the_mass(name: str, estimate: float, exclusive: bool) -> None:
    result = consistent(name, np.array([estimate]), Noise(1000, 1.0, 0.2, exclusive))

    if name == "norm" and abs(estimate) > 1.0:
        assert abs(result[0]) <= abs(estimate) * 1e-15
    else:
        np.testing.assert_allclose(result, [1.0], atol=1e-15)


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("name", NORMALISING)
def test_equal_estimates_give_the_uniform_histogram(name: str, exclusive: bool) -> None:
    for estimate in (-0.3, -0.05, 0.0, 0.2, 3.0):
        result = consistent(name, np.full(8, estimate), Noise(1000, 0.6, 0.2, exclusive))
        np.testing.assert_allclose(result, np.full(8, 0.125), atol=1e-15)


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.thorough
def test_a_million_values(name: str, exclusive: bool) -> None:
    """Nothing here is quadratic: the whole row of tests takes seconds."""
    k = 10**6
    noise = Noise(10**7, 0.5, 0.25, exclusive)
    true: Floats = np.arange(1.0, k + 1.0) ** -1.1
    true /= true.sum()
    noisy = true + np.random.default_rng(1).normal(size=k) * np.sqrt(noise.variance(true))

    result = consistent(name, noisy, noise)

    assert np.all(np.isfinite(result))
    if METHODS[name].non_negative:
        assert np.all(result >= 0.0)
    if METHODS[name].sums_to_one:
        assert abs(math.fsum(result) - 1.0) <= 1e-12
