"""The numerics of `power`: posterior means of counts under a power-law prior and Gaussian noise.

The quantity is a sum over all counts x = 0..n, for each of k estimates; n may be 10⁸ and k 10⁶.
Three reductions make it cheap, and `power` states the error that remains:

- Few rows: for many estimates the posterior is computed on a grid and interpolated (it is smooth on
  the scale of the noise).
- Few nodes near 0, where the prior is steep: counts below 128 one by one, then Gauss-Legendre
  panels that widen in proportion to x until they are one standard deviation wide.
- Far from 0, only counts within 12 standard deviations of the estimate matter: one Gauss-Legendre
  rule around it, its nodes crowded towards the upper end, where the counts may stop at n.

Distances are measured in *steps* of one standard deviation, t(x) = ∫ dx/σ(x), since σ² = floor +
slope·x varies with x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import expm1, log, sqrt

import numpy as np

from ldpbeam.consistency.base import FloatArray, Noise

EXACT_ROWS = 1024
"""Up to so many estimates, each gets its own row; beyond, a grid."""

EXACT_COUNTS = 1024
"""Up to this n, every count is a node."""

SINGLE_COUNTS = 128
"""Beyond that n, counts below this are nodes of their own."""

REACH = 12.0
"""Steps on either side of an estimate that are looked at (a Gaussian tail of 1e-32)."""

NEAR = 36.0
"""Estimates up to so many steps above 0 use the nodes near 0."""

GRID_STEP = 1.0 / 128.0
GRID_GROWTH = 1.02
LARGEST_EXPONENT = 16.0

_PANEL = np.polynomial.legendre.leggauss(6)
_WINDOW = np.polynomial.legendre.leggauss(128)


@dataclass(frozen=True)
class CountNoise:
    """Gaussian noise on the count scale: variance floor + slope·x at true count x, at least 1/4."""

    n: int
    floor: float
    slope: float

    @classmethod
    def of(cls, noise: Noise) -> CountNoise:
        """Scale the two-round variance of docs/maths.md section 1 from frequencies to counts."""
        ends = noise.variance(np.array([0.0, 1.0])) * float(noise.n) ** 2
        first, last = max(float(ends[0]), 0.25), max(float(ends[1]), 0.25)
        return cls(noise.n, first, (last - first) / noise.n)

    def std(self, counts: FloatArray) -> FloatArray:
        """Standard deviation of an estimated count whose true value is given, in 0..n."""
        return np.sqrt(self.floor + self.slope * counts)

    def steps(self, counts: FloatArray) -> FloatArray:
        """How many standard deviations lie between 0 and each count in 0..n."""
        return np.asarray(2.0 * counts / (self.std(counts) + sqrt(self.floor)), dtype=np.float64)

    def counts(self, steps: FloatArray) -> FloatArray:
        """The inverse of `steps`."""
        return steps * (sqrt(self.floor) + self.slope * steps / 4.0)

    @property
    def last_step(self) -> float:
        """`steps` of n."""
        return float(self.steps(np.array([float(self.n)]))[0])


class Posterior:
    """Marginal likelihoods and posterior means for one row per given (estimated) count."""

    def __init__(self, rows: FloatArray, noise: CountNoise) -> None:
        """Lay out the nodes; nothing here depends on the exponent of the prior."""
        self._n = noise.n
        nodes, weights, reach = _near_nodes(noise)
        steps = noise.steps(np.clip(rows, 0.0, float(noise.n)))
        self._near = steps <= reach
        self._nodes = nodes
        self._log_nodes = np.log1p(nodes)
        near = rows[self._near]
        std = noise.std(nodes)
        self._kernel = _exp_rows(-0.5 * ((near[:, None] - nodes) / std) ** 2 + np.log(weights / std))
        far = rows[~self._near]
        centres = steps[~self._near]
        # Steps are end - span·u², u in [0, 1]. A sum over counts is an integral of σ(t) dt over
        # steps; that σ cancels the density's 1/σ.
        end = np.minimum(centres + REACH, noise.last_step)
        span = end - (centres - REACH)
        u = 0.5 * (_WINDOW[0] + 1.0)
        self._far_nodes = noise.counts(end[:, None] - span[:, None] * u**2)
        self._far_logs = np.log1p(self._far_nodes)
        self._far_kernel = _exp_rows(
            -0.5 * ((far[:, None] - self._far_nodes) / noise.std(self._far_nodes)) ** 2
            + np.log(span[:, None] * (u * _WINDOW[1]))
        )

    def log_marginals(self, exponent: float) -> FloatArray:
        """Log-likelihood of each row under the exponent, up to a constant of the row."""
        result = np.empty(self._near.size)
        result[self._near] = np.log(self._kernel @ np.exp(-exponent * self._log_nodes))
        result[~self._near] = np.log(np.sum(self._far_weights(exponent), axis=1))
        return result - log_mass(exponent, self._n)

    def means(self, exponent: float) -> FloatArray:
        """Posterior mean of the true count of each row, in 0..n."""
        result = np.empty(self._near.size)
        prior = np.exp(-exponent * self._log_nodes)
        result[self._near] = (self._kernel @ (prior * self._nodes)) / (self._kernel @ prior)
        weights = self._far_weights(exponent)
        result[~self._near] = np.sum(weights * self._far_nodes, axis=1) / np.sum(weights, axis=1)
        return np.clip(result, 0.0, float(self._n))

    def _far_weights(self, exponent: float) -> FloatArray:
        return self._far_kernel * np.exp(-exponent * self._far_logs)


def log_mass(exponent: float, n: int) -> float:
    """log Σ_{x=0..n} (x+1)^-exponent: the first terms one by one, the rest by Euler-Maclaurin."""
    head = min(n + 1, EXACT_COUNTS)
    total = float(np.sum(np.arange(1.0, head + 1.0) ** -exponent))
    last = float(n + 1)
    if last > head:
        power = 1.0 - exponent
        ratio = log(last / head)
        integral = ratio if power == 0.0 else head**power * expm1(power * ratio) / power
        ends = (last**-exponent - head**-exponent) / 2.0
        slopes = exponent * (head ** (-exponent - 1.0) - last ** (-exponent - 1.0)) / 12.0
        total += integral + ends + slopes
    return log(total)


def best_exponent(log_likelihood: Callable[[float], float]) -> float:
    """Maximise over exponents in [0, 16]: a scan, then golden sections around its best."""
    scan = np.concatenate([np.linspace(0.0, 4.0, 33), np.geomspace(4.5, LARGEST_EXPONENT, 12)])
    best = int(np.argmax([log_likelihood(float(exponent)) for exponent in scan]))
    low, high = float(scan[max(best - 1, 0)]), float(scan[min(best + 1, scan.size - 1)])
    ratio = (sqrt(5.0) - 1.0) / 2.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = log_likelihood(left), log_likelihood(right)
    while high - low > 1e-6:
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = log_likelihood(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = log_likelihood(right)
    return 0.5 * (low + high)


def grid(low: float, high: float, noise: CountNoise) -> FloatArray:
    """Rows covering [low, high]: dense within some steps of 0 and n, elsewhere in ratio 1.02."""
    last = float(noise.n)
    rising = np.minimum(_ladder(NEAR + REACH, noise.last_step), noise.last_step)
    falling = noise.last_step - _ladder(REACH, min(REACH, noise.last_step))
    parts = [noise.counts(rising), noise.counts(np.maximum(falling, 0.0))]
    if low < 0.0:
        std = sqrt(noise.floor)
        parts.append(-std * _ladder(REACH, -low / std))
    if high > last:
        std = float(noise.std(np.array([last]))[0])
        parts.append(last + std * _ladder(REACH, (high - last) / std))
    rows = np.unique(np.concatenate(parts))
    inner = rows[(rows > low) & (rows < high)]
    return np.concatenate([[low], inner, [high]]) if high > low else np.array([low])


def _ladder(fine: float, end: float) -> FloatArray:
    """Even rungs from 0 up to `fine`, then growing by 2 % each, up to at least `end`."""
    even = np.arange(0.0, min(fine, end) + GRID_STEP, GRID_STEP)
    if end <= fine:
        return even
    rungs = int(log(end / even[-1]) / log(GRID_GROWTH)) + 2
    return np.concatenate([even, even[-1] * GRID_GROWTH ** np.arange(1, rungs)])


def _near_nodes(noise: CountNoise) -> tuple[FloatArray, FloatArray, float]:
    """Nodes, weights and the highest row position, in steps, that they serve."""
    if noise.n <= EXACT_COUNTS:
        nodes = np.arange(noise.n + 1.0)
        return nodes, np.ones_like(nodes), float("inf")
    single = np.arange(float(SINGLE_COUNTS))
    end = noise.n + 0.5
    if noise.last_step > NEAR + REACH:
        served = float(noise.counts(np.array([NEAR + REACH]))[0])
        end = min(max(served, float(SINGLE_COUNTS)) + 0.5, end)
    edges = [SINGLE_COUNTS - 0.5]
    while edges[-1] < end:
        # The noise at either end of the panel bounds its width: it may fall towards n.
        std = noise.std(np.array([min(edges[-1], noise.n)]))
        std = np.minimum(std, noise.std(np.minimum(edges[-1] + std, noise.n)))
        edges.append(min(edges[-1] + max(min(0.5 * edges[-1], float(std[0])), 1.0), end))
    bounds = np.array(edges)
    half = 0.5 * np.diff(bounds)
    panels = (bounds[:-1] + half)[:, None] + half[:, None] * _PANEL[0]
    nodes = np.concatenate([single, np.minimum(panels, noise.n).ravel()])
    weights = np.concatenate([np.ones_like(single), (half[:, None] * _PANEL[1]).ravel()])
    if end >= noise.n + 0.5:
        return nodes, weights, float("inf")
    return nodes, weights, float(noise.steps(np.array([end]))[0]) - REACH


def _exp_rows(logs: FloatArray) -> FloatArray:
    """Exponentials, each row scaled so that its largest is 1; the scale cancels in every use."""
    if logs.size:
        logs -= np.max(logs, axis=1, keepdims=True)
    return np.asarray(np.exp(logs), dtype=np.float64)
