"""A population with a story for demonstrations: habits drift and, one day, a new feature takes off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ldpbeam.simulators.words import RandomWords

__all__ = ["Launch"]

_CHANGE = 0.25  # probability per epoch that a device forms its habit anew, as in LOLOHA's Syn
_PRESENT = 0.97  # probability that a device reports in an epoch


class Launch:
    """Zipf-like habits; after a third of the epochs one rare value grows to be the second most common.

    Attributes:
        devices, epochs, domain_size: sizes.
        labels: none; the collection names its values.
    """

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
