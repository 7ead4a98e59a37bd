"""Slow, obvious versions of the consistency methods, to be compared with `ldpbeam.consistency`.

Nothing here is shared with the fast code: iterations where that sorts, plain sums where that
integrates, a general optimiser where that has a closed form.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def norm_cut_one_by_one(estimates: FloatArray) -> FloatArray:
    """Clip, then drop the smallest positive (the last of equals) while the sum exceeds 1."""
    result = np.maximum(estimates, 0.0)
    while np.sum(result) > 1.0 + 1e-12:
        positive = np.flatnonzero(result > 0.0)
        if positive.size == 1:
            result[positive] = 1.0
            break
        smallest = result[positive].min()
        result[positive[result[positive] == smallest][-1]] = 0.0
    return result


def outcomes(shares: FloatArray, own: float, other: float, exclusive: bool) -> tuple[FloatArray, FloatArray]:
    """The likelihood as Σ_j w_j log (A x)_j: weights w and a matrix A of probabilities."""
    k = shares.size
    yes = np.where(np.eye(k, dtype=bool), own, other)
    if exclusive:
        return shares, yes
    return np.concatenate([shares, 1.0 - shares]), np.concatenate([yes, 1.0 - yes])


def optimality_gap(x: FloatArray, weights: FloatArray, matrix: FloatArray) -> float:
    """How far Σ w log(Ax) can at most be below its maximum, relative to Σ w (Kuhn-Tucker bound)."""
    seen = weights > 0.0
    gradient = matrix[seen].T @ (weights[seen] / (matrix[seen] @ x))
    return float((np.max(gradient) - np.sum(weights)) / np.sum(weights))


def power_direct(counts: FloatArray, n: int, floor: float, slope: float, exponent: float) -> FloatArray:
    """Posterior means by the plain sum over all counts 0..n."""
    x = np.arange(n + 1.0)
    variance = floor + slope * x
    prior = -exponent * np.log(x + 1.0) - 0.5 * np.log(variance)
    means = np.empty(counts.size)
    for row, count in enumerate(counts):
        logs = prior - 0.5 * (count - x) ** 2 / variance
        weights = np.exp(logs - logs.max())
        means[row] = weights @ x / weights.sum()
    return means


def power_log_likelihood(counts: FloatArray, n: int, floor: float, slope: float, exponent: float) -> float:
    """Log marginal likelihood of the estimated counts by the plain sum over all counts 0..n."""
    x = np.arange(n + 1.0)
    variance = floor + slope * x
    prior = -exponent * np.log(x + 1.0)
    prior -= np.log(np.sum(np.exp(prior)))
    total = 0.0
    for count in counts:
        logs = prior - 0.5 * np.log(variance) - 0.5 * (count - x) ** 2 / variance
        total += float(logs.max() + np.log(np.sum(np.exp(logs - logs.max()))))
    return total


def kiefer_wolfowitz(
    counts: FloatArray, points: FloatArray, floor: float, slope: float, rounds: int
) -> FloatArray:
    """Posterior means of ``bayes``, one estimate and one point of the prior after the other."""
    variances = [floor + slope * x for x in points]
    density = [
        [float(np.exp(-0.5 * (y - x) ** 2 / v) / np.sqrt(v)) for x, v in zip(points, variances, strict=True)]
        for y in counts
    ]
    weights = [1.0 / len(points)] * len(points)
    for _ in range(rounds):
        shares = [0.0] * len(points)
        for row in density:
            total = sum(w * d for w, d in zip(weights, row, strict=True))
            for j, (w, d) in enumerate(zip(weights, row, strict=True)):
                shares[j] += w * d / total / len(counts)
        weights = shares
    return np.array(
        [
            sum(x * w * d for x, w, d in zip(points, weights, row, strict=True))
            / sum(w * d for w, d in zip(weights, row, strict=True))
            for row in density
        ]
    )


def haar_of_all_shifts(estimates: FloatArray, variances: FloatArray, steps: int = 100) -> FloatArray:
    """Posterior means of the differences of neighbouring stretches, one by one; before norm_sub."""
    k = estimates.size
    line = [float(x) for x in [*estimates, *estimates[::-1]]]
    noise = [float(v) for v in [*variances, *variances[::-1]]]
    return np.array(_shrunk_line(line, noise, 1, k, steps)[:k])


def _shrunk_line(means: list[float], noise: list[float], stretch: int, k: int, steps: int) -> list[float]:
    """What the means of stretches become: those of twice the length first, then the differences."""
    places = 2 * k
    if 2 * stretch > places:
        left = 1.0 - stretch / places
        if left == 0.0:
            return [1.0 / k] * places
        away = [x - 1.0 / k for x in means]
        return [1.0 / k + x for x in _posterior(away, [v * left for v in noise], 1.0, steps)]
    other = [(t + stretch) % places for t in range(places)]
    half = [(noise[t] + noise[other[t]]) / 4.0 for t in range(places)]
    detail = [(means[t] - means[other[t]]) / 2.0 for t in range(places)]
    coarse = [(means[t] + means[other[t]]) / 2.0 for t in range(places)]
    coarse = _shrunk_line(coarse, half, 2 * stretch, k, steps)
    detail = _posterior(detail, half, k / (2.0 * stretch), steps)
    return [
        (coarse[t] + detail[t] + coarse[(t - stretch) % places] - detail[(t - stretch) % places]) / 2.0
        for t in range(places)
    ]


def _posterior(differences: list[float], noise: list[float], independent: float, steps: int) -> list[float]:
    """Posterior means under the mixture of normals that fits best, three zeros added."""
    sizes = [abs(d) / v**0.5 for d, v in zip(differences, noise, strict=True)]
    squares = [0.0, 1 / 16]
    while 2.0 * squares[-1] < 2.0 * max(*sizes, 1.0) ** 2:
        squares.append(2.0 * squares[-1])
    share = independent / len(sizes)
    density = [[np.exp(-0.5 * z * z / (1.0 + r)) / (1.0 + r) ** 0.5 for r in squares] for z in sizes]
    prior = [1.0 / len(squares)] * len(squares)
    for _ in range(steps):
        gained = [3.0] + [0.0] * (len(squares) - 1)
        for row in density:
            total = sum(p * d for p, d in zip(prior, row, strict=True))
            gained = [g + share * p * d / total for g, p, d in zip(gained, prior, row, strict=True)]
        prior = [g / sum(gained) for g in gained]
    means = []
    for difference, row in zip(differences, density, strict=True):
        weights = [p * d for p, d in zip(prior, row, strict=True)]
        factor = sum(w * r / (1.0 + r) for w, r in zip(weights, squares, strict=True)) / sum(weights)
        means.append(difference * factor)
    return means
