"""Strings that nobody listed, found by their prefixes and estimated.

Every device reports the fingerprint of one prefix of its string. The walk goes from the shortest prefix to
the longest; candidates of a level are the prefixes that passed the level before, each with all symbols behind
it. A string that is shorter than a level's length is whole there: all levels from this one on tell of it.

The fingerprint of a string of nobody is a random number for the table of a level: its support is the sum of
one random cell of each row. The law of that sum follows from the table alone, whatever devices hold and
however often they report, and so do all thresholds. Candidates are chosen by other devices than those which
then decide about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, nan, sqrt

import numpy as np

from ldpbeam.arrays import Floats, Ints
from ldpbeam.estimation.prefix_plan import CREDIT, SCREEN, deficit, deviations, false_find_share
from ldpbeam.estimation.prefix_table import LevelCounts, PrefixTable, Reading, sum_of_moments, threshold
from ldpbeam.estimation.whole_strings import TAIL, find

MOST_CANDIDATES = 1 << 19
"""Of a level: if there were more, only the most frequent prefixes go on."""


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


def walk(levels: Sequence[LevelCounts], reading: Reading, most: int = MOST_CANDIDATES) -> Walk:
    """Find strings.

    Args:
        levels: from the shortest prefix to the longest.
        reading: how reports are read.
        most: candidates of a level.
    """
    tables = [PrefixTable(level, reading, number) for number, level in enumerate(levels)]
    steps = np.diff([0, *(level.length for level in levels)]).tolist()
    passed = {"": CREDIT}
    whole: list[tuple[list[str], int]] = []
    done, tried = [], 0
    for i, table in enumerate(tables):
        suffixes = [_suffixes(reading.symbols, length) for length in range(steps[i] + 1)]
        prefixes = [] if i == len(tables) - 1 else suffixes.pop()
        strings = [suffix for some in suffixes for suffix in some]
        kept = _frequent([table], passed, prefixes)
        whole.append((list(_frequent(tables[i:], passed, strings)), len(passed) * len(strings)))
        candidates, least = len(passed) * (len(prefixes) + len(strings)), nan
        tried, passed = tried + candidates, {}
        table.take_out(table.fingerprints([*kept, *(text for texts, _ in whole for text in texts)]), tried)
        if kept:
            extensions = len(reading.symbols) ** steps[i + 1]
            least, passed = _passing(table, kept, extensions, max(1, most // extensions))
        done.append((table.level.length, table.n, candidates, least, len(passed)))
    return _found(tables, whole, done)


def _suffixes(symbols: tuple[str, ...], length: int) -> list[str]:
    return ["".join(some) for some in product(symbols, repeat=length)]


def _frequent(tables: list[PrefixTable], passed: dict[str, float], suffixes: list[str]) -> dict[str, float]:
    """Candidates with the credit of their prefix, but for those which all tables together call rare."""
    least = threshold(SCREEN, sum_of_moments(tables))
    kept: dict[str, float] = {}
    for prefix, credit in passed.items():
        texts = [prefix + suffix for suffix in suffixes]
        excess = sum(table.excess(table.fingerprints(texts)) for table in tables)
        kept |= dict.fromkeys((texts[j] for j in np.flatnonzero(excess >= least)), credit)
    return kept


def _passing(
    table: PrefixTable, kept: dict[str, float], extensions: int, most: int
) -> tuple[float, dict[str, float]]:
    """The least estimate of prefixes that go on, and these with what is left of their credit."""
    texts, deviation = list(kept), sqrt(table.moments()[0])
    excess = table.excess(table.fingerprints(texts))
    left = np.fromiter(kept.values(), float) - deficit(excess / deviation, extensions)
    among = np.flatnonzero(left >= 0)
    among = among[np.argsort(-excess[among], kind="stable")[:most]]
    return float(excess[among].min(initial=inf) / table.unit), {texts[j]: float(left[j]) for j in among}


def _found(
    tables: list[PrefixTable],
    whole: list[tuple[list[str], int]],
    done: list[tuple[int, int, int, float, int]],
) -> Walk:
    together = np.zeros((len(tables), len(tables[0].rows)))
    wide, found = deviations(TAIL, sum(number for _, number in whole)), []
    for i, (texts, number) in enumerate(whole):
        quantile = deviations(false_find_share(i, len(tables)), number)
        found.append(find(tables[i:], texts, quantile, wide))
        together[i:] += found[-1].errors
    n, support = np.hstack([some.counts for some in found])
    numbers = np.hstack([some.numbers for some in found])
    # Strings were chosen for large estimates: half of what the median takes off is right for their sum.
    moved = (numbers[0] - np.hstack([some.medians for some in found])) / 2
    error = sqrt((together**2).sum() + (moved**2).sum())
    unfound = 1 - float((numbers[0] - moved).sum()), error
    order = np.argsort(-numbers[0], kind="stable")
    texts = [text for some in found for text in some.texts]
    walked = [LevelWalk(*one, some.threshold) for one, some in zip(done, found, strict=True)]
    return Walk([texts[j] for j in order], n[order], support[order], numbers[:, order], walked, unfound)
