"""Strings that nobody listed, found by their prefixes and estimated.

Every device reports the fingerprint of one prefix of its string. The walk goes from the shortest prefix to
the longest; candidates of a level are the prefixes that passed the level before, each with all symbols behind
it. A string that is shorter than a level's length is whole there: all levels from this one on tell of it.

The fingerprint of a string of nobody is a random number for the table of a level: its support is the sum of
one random cell of each row. The law of that sum follows from the table alone, whatever devices hold and however
often they report, and so do all thresholds. Candidates are chosen by other devices than those which then
decide about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, log, nan, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimation.prefix_plan import CREDIT, deficit, false_find_share, law_variance
from ldpbeam.estimation.prefix_table import LevelCounts, PrefixTable, Reading, threshold

MOST_CANDIDATES = 1 << 21
"""Of a level: if there were more, only the most frequent prefixes go on."""
_SCREEN = 1.5
"""Deviations of the support as it was counted, below which no candidate is looked at again."""
_TAIL = 0.025
_NORMAL = NormalDist()


@dataclass(frozen=True)
class LevelWalk:
    """What was done at a level.

    Attributes:
        length: symbols of a prefix.
        n: reports.
        candidates: prefixes and strings that were looked at.
        threshold: least estimate of a prefix that went on; NaN where none was there to go on.
        passed: prefixes that went on.
        find_threshold: estimate from which on a string is found that is whole from this level on.
    """

    length: int
    n: int
    candidates: int
    threshold: float
    passed: int
    find_threshold: float


@dataclass(frozen=True)
class Walk:
    """Strings found, the most frequent first.

    Attributes:
        texts: the strings.
        n: reports of all levels at which a string is whole, int64 (k,).
        support: how many of them support it, int64 (k,).
        numbers: estimate, standard error, limits at 95 % that hold after the choice, and limits that hold for
            all candidates at once: float64 (6, k).
        levels: what was done.
        unfound: share of devices whose string is not among these, and its standard error.
    """

    texts: list[str]
    n: Ints
    support: Ints
    numbers: Floats
    levels: list[LevelWalk]
    unfound: tuple[float, float]


_Whole = tuple[list[str], int]
"""Strings that are whole from a level on: those that may be frequent, and how many were looked at."""


def walk(levels: Sequence[LevelCounts], reading: Reading, most: int = MOST_CANDIDATES) -> Walk:
    """Find strings in the reports of one epoch.

    Args:
        levels: from the shortest prefix to the longest.
        reading: how reports are read.
        most: candidates of a level.
    """
    tables = [PrefixTable(level, reading, number) for number, level in enumerate(levels)]
    steps = np.diff([0, *(level.length for level in levels)]).tolist()
    passed = {"": CREDIT}
    done, whole = [], []
    for i, table in enumerate(tables):
        suffixes = [_suffixes(reading.symbols, length) for length in range(steps[i] + 1)]
        prefixes = [] if i == len(tables) - 1 else suffixes.pop()
        strings = [suffix for some in suffixes for suffix in some]
        kept = _frequent([table], passed, prefixes)
        whole.append((list(_frequent(tables[i:], passed, strings)), len(passed) * len(strings)))
        table.take_out(table.fingerprints([*kept, *(text for texts, _ in whole for text in texts)]))
        candidates, least, passed = len(passed) * (len(prefixes) + len(strings)), nan, {}
        if kept:
            extensions = len(reading.symbols) ** steps[i + 1]
            least, passed = _passing(table, kept, extensions, max(1, most // extensions))
        done.append((table.level.length, table.n, candidates, least, len(passed)))
    return _found(tables, whole, done, reading.own)


def _suffixes(symbols: tuple[str, ...], length: int) -> list[str]:
    return ["".join(some) for some in product(symbols, repeat=length)]


def _frequent(tables: list[PrefixTable], passed: dict[str, float], suffixes: list[str]) -> dict[str, float]:
    """Candidates with the credit of their prefix, but for those which all tables together call rare."""
    least, kept = threshold(_SCREEN, _moments(tables)), {}
    for prefix, credit in passed.items():
        texts = [prefix + suffix for suffix in suffixes]
        excess = sum(table.excess(table.fingerprints(texts)) for table in tables)
        kept |= dict.fromkeys((texts[j] for j in np.flatnonzero(excess >= least)), credit)
    return kept


def _moments(tables: list[PrefixTable]) -> Floats:
    return np.sum([table.moments() for table in tables], axis=0)


def _passing(
    table: PrefixTable, kept: dict[str, float], extensions: int, most: int
) -> tuple[float, dict[str, float]]:
    """The least estimate of prefixes that go on, and these with what is left of their credit."""
    texts, deviation = list(kept), sqrt(table.moments()[0])
    excess = table.excess(table.fingerprints(texts))
    left = np.fromiter(kept.values(), float) - deficit(excess / deviation, extensions)
    among = np.flatnonzero(left >= 0)
    among = among[np.argsort(-excess[among], kind="stable")[:most]]
    return excess[among].min(initial=inf) / table.unit, {texts[j]: float(left[j]) for j in among}


def _found(tables: list[PrefixTable], whole: list[_Whole], done: list[Any], own: float) -> Walk:
    """Strings above the thresholds of the levels from which on they are whole."""
    texts: list[str] = []
    levels, counts, numbers = [], [], []
    together = [np.zeros(len(table.rows)) for table in tables]
    wide = -_NORMAL.inv_cdf(_TAIL / max(sum(number for _, number in whole), 1))
    for i, (some, number) in enumerate(whole):
        mine = tables[i:]
        n, unit = sum(table.n for table in mine), sum(table.unit for table in mine)
        quantile = -_NORMAL.inv_cdf(false_find_share(i, len(tables)) / max(number, 1))
        least = threshold(quantile, _moments(mine))
        levels.append(LevelWalk(*done[i], least / unit))
        prints = [table.fingerprints(some) for table in mine]
        excess = np.sum([table.excess(row) for table, row in zip(mine, prints, strict=True)], axis=0)
        # Of several strings with one fingerprint nobody knows which is held.
        shared = np.any([np.isin(row, table.shared) for table, row in zip(mine, prints, strict=True)], axis=0)
        among = np.flatnonzero((excess >= least) & ~shared)
        support, variance = np.zeros(len(among), np.int64), np.zeros(len(among))
        for j, (table, row) in enumerate(zip(mine, prints, strict=True)):
            residuals = table.residuals(row[among]) / unit
            together[i + j] += residuals.sum(axis=0)
            variance += (residuals**2).sum(axis=1)
            support += table.support(row[among])
        estimates = excess[among] / unit
        # Residuals do not know that the population is fixed, and that a share of it was asked.
        share, asked = np.clip(estimates, 0, 1), sum(table.level.asked for table in mine)
        variance -= asked * share * (1 - share) / max(n, 1)
        law = law_variance(share, own, tables[0].g, asked) / max(n, 1)
        texts += [some[j] for j in among]
        counts.append(np.vstack([np.full(len(among), n), support]))
        numbers.append(_numbers(estimates, np.sqrt(np.maximum(variance, law)), least / unit, wide))
    n, support = np.hstack(counts)
    columns = np.hstack(numbers)
    order = np.argsort(-columns[0], kind="stable")
    error = float(np.sqrt(sum((residuals**2).sum() for residuals in together)))
    unfound = 1 - float(columns[0].sum()), error
    return Walk([texts[j] for j in order], n[order], support[order], columns[:, order], levels, unfound)


def _numbers(estimates: Floats, errors: Floats, least: float, wide: float) -> Floats:
    """Columns of :class:`Walk`; limits are those of a normal law that is known to lie above the threshold."""
    from scipy.special import log_ndtr

    limits = []
    for tail in (_TAIL, 1 - _TAIL):
        low, high = np.zeros(len(estimates)), np.ones(len(estimates))
        for _ in range(50):
            share = (low + high) / 2
            above = log_ndtr((share - estimates) / errors) - log_ndtr((share - least) / errors)
            low, high = np.where(above < log(tail), [share, high], [low, share])
        limits.append(low)
    limits += [np.clip(estimates + sign * wide * errors, 0, 1) for sign in (-1, 1)]
    # As everywhere, an interval holds the estimate.
    limits[::2], limits[1::2] = (
        [np.minimum(low, estimates) for low in limits[::2]],
        [np.maximum(high, estimates) for high in limits[1::2]],
    )
    return np.vstack([estimates, errors, *limits])
