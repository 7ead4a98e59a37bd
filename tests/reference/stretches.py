"""What one report does to estimates of the distribution over a domain that has an order, by full matrices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ldpbeam.arrays import Floats
from ldpbeam.channels.channel import SymbolChannel
from tests.reference.counting import interval_hash

FUNCTIONS = 64
WANDERS = 4
"""How far the density of the cautious prior may wander over an eighth of the domain; 1 is uniform."""


class Moves(NamedTuple):
    """What a forged report moves, times the number of reports, where values are spread evenly."""

    share: float
    share_of_all: float
    mean: float
    mean_of_all: float


def moves(size: int, g: int, epsilon: float, reports: int) -> Moves:
    """Of a posterior with a random walk as its prior, in the linear approximation at the uniform density."""
    channel = SymbolChannel.from_epsilon(g, epsilon)
    own, other = float(channel.own), float(channel.other)
    symbols = np.array([[interval_hash(s, v, g, size) for v in range(size)] for s in range(FUNCTIONS)])
    stretches = (symbols[:, None, :] == np.arange(g)[:, None]).reshape(-1, size).astype(float)
    chances = other + (own - other) * stretches.mean(axis=1)
    score: Floats = (own - other) * stretches.T / chances
    information = reports / FUNCTIONS * (score * chances) @ score.T
    steps = np.diff(np.eye(size), axis=0)
    spread = np.linalg.inv(information + size**3 / (8 * WANDERS**2) * steps.T @ steps)
    whole = spread.sum(axis=1)
    moved = reports * (spread - np.outer(whole, whole) / whole.sum()) @ score
    shares = np.abs(np.cumsum(moved, axis=0)[:-1]).reshape(size - 1, FUNCTIONS, g)
    means = np.abs(np.arange(size) @ moved).reshape(FUNCTIONS, g).max(axis=1) / (size - 1)
    each = shares.max(axis=2).mean(axis=1)
    return Moves(float(shares.max()), float(each.max()), float(means.max()), float(means.mean()))
