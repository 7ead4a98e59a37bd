"""Populations whose values are drawn from a law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..random_words import RandomWords
from .request import Population, Request

_CHANGE = 0.25
"""Probability that a device draws a new value in an epoch (LOLOHA, section 5.1)."""
_PRESENT = 0.97
"""Probability that a device of :class:`Launch` reports in an epoch."""


@dataclass(frozen=True, eq=False)
class _LawPopulation:
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
        generator = self.random_words.generator(self.purpose, 0)
        current = self._draw(generator, np.arange(self.devices))
        yield current.copy()
        for epoch in range(1, self.epochs):
            generator = self.random_words.generator(self.purpose, epoch)
            changes = np.flatnonzero(generator.random(self.devices) < self.change)
            current[changes] = self._draw(generator, changes)
            yield current.copy()

    def _draw(self, generator: np.random.Generator, rows: NDArray[np.intp]) -> NDArray[np.int32]:
        """Values of these devices; every device has its draw, so that none depends on another's change."""
        if self.cumulative is None:
            return generator.integers(0, self.domain_size, size=self.devices, dtype=np.int32)[rows]
        places = generator.random(self.devices)[rows]
        return np.searchsorted(self.cumulative, places, side="right").astype(np.int32)


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
    return _LawPopulation(
        request.needed("devices", request.devices),
        request.needed("epochs", request.epochs),
        request.domain.size,
        request.domain.labels,
        cumulative,
        request.number("the change probability", change, lambda x: 0 <= x <= 1, "from 0 to 1"),
        request.random_words,
        request.purpose,
    )


class Launch:
    def __init__(self, devices: int, epochs: int, domain_size: int, random_words: RandomWords) -> None:
        self.devices = devices
        self.epochs = epochs
        self.domain_size = domain_size
        self.labels: tuple[str, ...] | None = None
        self._random_words = random_words

    def law(self, epoch: int) -> NDArray[np.float64]:
        """What a device that forms its habit in this epoch chooses from, float64 (domain_size,)."""
        weights = 1.0 / np.arange(1, self.domain_size + 1) ** 1.1
        weights[0] *= 1 + 0.35 * np.sin(2 * np.pi * epoch / max(self.epochs / 2, 1))
        started = (epoch - self.epochs / 3) / max(self.epochs / 12, 1)
        weights[self.domain_size // 2] += 0.9 / (1 + np.exp(-started))
        return np.asarray(weights / weights.sum())

    def values(self) -> Iterator[NDArray[np.int32]]:
        """One array (devices,) per epoch; -1 where a device is absent."""
        held = np.zeros(self.devices, np.int32)
        for epoch in range(self.epochs):
            generator = self._random_words.generator("launch", epoch)
            fresh = generator.choice(self.domain_size, self.devices, p=self.law(epoch))
            anew = generator.random(self.devices) < (1.0 if epoch == 0 else _CHANGE)
            held = np.where(anew, fresh, held).astype(np.int32)
            present = generator.random(self.devices) < _PRESENT
            yield np.where(present, held, -1).astype(np.int32)
