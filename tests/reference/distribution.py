"""The distribution of an ordered domain again, from the formulas: whole matrices over all values, no basis.

Written for reading. Frequencies of all values are the unknowns, with one more for each atom; that they add up
to 1 is kept by the null space of a row of ones. Nothing is left out for large domains.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
from scipy.linalg import block_diag, null_space, solve_triangular

from ldpbeam.arrays import Floats, Ints


@dataclass(frozen=True)
class Posterior:
    """Of the shares below the edges 0 .. k: means and standard deviations."""

    curve: Floats
    std_error: Floats


def stretch_matrix(bounds: Ints, k: int) -> Floats:
    """1 where a cell's stretch holds the value, float64 (functions·g, k)."""
    places = np.arange(k)
    held = (places >= bounds[:, :-1, None]) & (places < bounds[:, 1:, None])
    return held.reshape(-1, k).astype(float)


def estimate(
    counts: Ints, bounds: Ints, channel: tuple[float, float], atoms: tuple[int, ...] = ()
) -> tuple[Floats, Posterior]:
    """The mean at the learned scale, and the posterior that limits are taken from, where ends are atoms."""
    k, functions = int(bounds[0, -1]), len(bounds)
    held, (own, other) = stretch_matrix(bounds, k), channel
    sizes = np.repeat(counts.reshape(functions, -1).sum(axis=1), bounds.shape[1] - 1)
    ends = [end for end in (0, k - 1) if end not in atoms]
    frequency = np.full(k, 1 / k)
    for turn in range(3):
        chances = other + (own - other) * held @ frequency
        information = (own - other) ** 2 * held.T @ ((sizes / chances)[:, None] * held)
        even = np.full(k, 1 / k)
        expected = sizes * (other + (own - other) * held @ even)
        score = (own - other) * held.T @ ((counts - expected) / chances)
        choices = [ends] if turn < 2 else chain.from_iterable(combinations(ends, n) for n in range(3))
        fits = [_fit(information, score, [*one, *atoms], k) for one in choices]
        best = np.array([likelihood for likelihood, _, _ in fits])
        weights = np.exp(best - best.max())
        weights /= weights.sum()
        learned = np.asarray(sum(w * curve for w, (_, curve, _) in zip(weights, fits, strict=True)))
        frequency = np.maximum(np.diff(learned), 0.0)
        frequency = 0.9 * frequency / frequency.sum() + 0.1 / k
    return learned, fits[-1][2]


def _fit(information: Floats, score: Floats, spikes: list[int], k: int) -> tuple[float, Floats, Posterior]:
    """Of these atoms: the best likelihood, the curve at its scale, and the posterior at that of limits."""
    walk = np.diff(np.eye(k), axis=0)
    smooth = null_space(np.ones((1, k)))
    whole = np.hstack([smooth, np.eye(k)[:, spikes] - 1 / k])
    penalty = block_diag(smooth.T @ walk.T @ walk @ smooth, np.zeros((len(spikes), len(spikes))))
    weak = np.diag([0.0] * (k - 1) + [1.0] * len(spikes))
    matrix, vector = whole.T @ information @ whole + weak, whole.T @ score
    scales = k**3 / (8 * np.geomspace(0.02, 2000, 81) ** 2)
    likelihoods = []
    for scale in scales:
        root = np.linalg.cholesky(matrix + scale * penalty)
        square = (solve_triangular(root, vector, lower=True) ** 2).sum()
        likelihoods.append((square + (k - 1) * np.log(scale)) / 2 - np.log(np.diag(root)).sum())
    learned = scales[int(np.argmax(likelihoods))]
    below = np.tril(np.ones((k + 1, k)), -1) @ whole
    found = []
    for scale in (learned, min(learned / 10, k**3 / (8 * 4**2))):
        covariance = np.linalg.inv(matrix + scale * penalty)
        curve = np.arange(k + 1) / k + below @ covariance @ vector
        variance = np.einsum("ti,ij,tj->t", below, covariance, below)
        found.append(Posterior(curve, np.sqrt(np.maximum(variance, 0.0))))
    return max(likelihoods), found[0].curve, found[1]
