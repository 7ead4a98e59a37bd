"""Populations whose values are drawn from a law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpbeam.simulators.population.contract import Population, Request
from ldpbeam.simulators.words import RandomWords

__all__ = ["syn", "zipf"]

_CHANGE = 0.25
"""Probability that a device draws a new value in an epoch (LOLOHA, section 5.1)."""


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Values from a law: a start, then in each epoch a new draw with probability ``change``."""

    devices: int
    epochs: int
    domain_size: int
    labels: tuple[str, ...] | None
    cumulative: NDArray[np.float64] | None
    """Distribution function of the law, shape (domain_size,); None is uniform."""
    change: float
    random_words: RandomWords
    purpose: str

    def values(self) -> Iterator[NDArray[np.int32]]:
        """Every epoch from its own generator; a new draw may repeat the old value (LOLOHA)."""
        current = self._draw(self.random_words.generator(self.purpose, 0))
        yield current.copy()
        for epoch in range(1, self.epochs):
            generator = self.random_words.generator(self.purpose, epoch)
            changes = generator.random(self.devices) < self.change
            current = np.where(changes, self._draw(generator), current)
            yield current.copy()

    def _draw(self, generator: np.random.Generator) -> NDArray[np.int32]:
        if self.cumulative is None:
            return generator.integers(0, self.domain_size, size=self.devices, dtype=np.int32)
        return np.searchsorted(self.cumulative, generator.random(self.devices), side="right").astype(np.int32)


def syn(request: Request) -> Population:
    """``syn[:CHANGE]``: uniform."""
    return _drawn(request, None, request.rest or str(_CHANGE))


def zipf(request: Request) -> Population:
    """``zipf:EXPONENT[:CHANGE]``: value i has weight 1/(i+1)**EXPONENT."""
    exponent, _, change = request.rest.partition(":")
    s = request.number("the exponent", exponent, lambda x: 0 < x < float("inf"), "above 0: zipf:1.1")
    weights = np.arange(1, request.domain.size + 1, dtype=np.float64) ** -s
    cumulative = np.cumsum(weights)
    cumulative /= cumulative[-1]
    return _drawn(request, cumulative, change or str(_CHANGE))


def _drawn(request: Request, cumulative: NDArray[np.float64] | None, change: str) -> Population:
    return _Drawn(
        request.needed("devices", request.devices),
        request.needed("epochs", request.epochs),
        request.domain.size,
        request.domain.labels,
        cumulative,
        request.number("the change probability", change, lambda x: 0 <= x <= 1, "from 0 to 1"),
        request.random_words,
        request.purpose,
    )
