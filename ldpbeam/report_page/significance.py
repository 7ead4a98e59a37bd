"""Which values deserve a chart: those that stand out of the noise, not those that are large."""

from __future__ import annotations

import numpy as np

from ldpbeam.arrays import Flags
from ldpbeam.over_time.significance import adjusted, p_values
from ldpbeam.report_page.estimates import Floats, Ints, Snapshot

_COLUMNS = 10
_SEEN, _Z, _N0, _SUM0, _FRESH0, _FLOOR0, _N1, _SUM1, _FRESH1, _FLOOR1 = range(_COLUMNS)

FALSE_ALARM = 0.0027
"""How often a page may say of any value that it rose or fell when none did: as three standard errors do."""


class Standing:
    """Sums over epochs from which the distance of each value from 1/k, and its change, follow."""

    def __init__(self, halves: int) -> None:
        """`halves` is the place of the first epoch of the later half; 0 means no comparison."""
        self._halves = halves
        self._values: Ints = np.zeros(0, dtype=np.int64)
        self._sums: Floats = np.zeros((_COLUMNS, 0))

    def add(self, place: int, snapshot: Snapshot, baseline: float) -> None:
        self._make_room(snapshot.values)
        good = np.isfinite(snapshot.estimate) & (snapshot.std_error > 0)
        where = np.searchsorted(self._values, snapshot.values[good])
        estimate, error = snapshot.estimate[good], snapshot.std_error[good]
        late = place >= self._halves
        # Where results do not say what may repeat itself, all of an error may.
        floor = snapshot.floor[good]
        floor_variance = np.where(np.isfinite(floor), floor, error) ** 2
        sums = self._sums
        sums[_SEEN, where] += 1
        sums[_Z, where] += (estimate - baseline) / error
        sums[_N1 if late else _N0, where] += 1
        sums[_SUM1 if late else _SUM0, where] += estimate
        sums[_FRESH1 if late else _FRESH0, where] += error**2 - floor_variance
        sums[_FLOOR1 if late else _FLOOR0, where] += np.sqrt(floor_variance)

    def ranked(self, limit: int) -> list[int]:
        """The `limit` most significant values, the most significant first."""
        distance, jump, _ = self._scores()
        score = np.maximum(np.abs(distance) * np.sqrt(self._sums[_SEEN]), np.abs(jump))
        order = np.argsort(-score, kind="stable")[:limit]
        return [int(self._values[i]) for i in order if self._sums[_SEEN, i] > 0]

    def of(self, value: int) -> tuple[float, float, float]:
        """(mean z against the baseline, z of the change, the change) of one value."""
        place = int(np.searchsorted(self._values, value))
        distance, jump, change = self._scores()
        return float(distance[place]), float(jump[place]), float(change[place])

    def changed(self) -> frozenset[int]:
        """The values that rose or fell, see :func:`changed`."""
        _, jump, _ = self._scores()
        return frozenset(self._values[changed(jump)].tolist())

    def _scores(self) -> tuple[Floats, Floats, Floats]:
        sums = self._sums
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.nan_to_num(sums[_Z] / sums[_SEEN])
            change = np.nan_to_num(sums[_SUM1] / sums[_N1] - sums[_SUM0] / sums[_N0])
            early = (sums[_FRESH0] + sums[_FLOOR0] ** 2) / sums[_N0] ** 2
            late = (sums[_FRESH1] + sums[_FLOOR1] ** 2) / sums[_N1] ** 2
            error = np.sqrt(early + late)
            jump = np.nan_to_num(change / error)
        return distance, jump, change

    def _make_room(self, values: Ints) -> None:
        if np.array_equal(values, self._values):
            return
        union = np.union1d(self._values, values)
        sums = np.zeros((_COLUMNS, len(union)))
        sums[:, np.searchsorted(union, self._values)] = self._sums
        self._values, self._sums = union, sums


def changed(jumps: Floats) -> Flags:
    """Which of the values changed more than chance lets any of them, from the z of each one's change."""
    return np.asarray(adjusted(p_values(jumps, np.ones_like(jumps))) <= FALSE_ALARM, np.bool_)


def discoveries(snapshot: Snapshot, baseline: float, rate: float = 0.05) -> int:
    """How many values differ from a baseline at a false-discovery rate (Benjamini–Hochberg)."""
    good = np.isfinite(snapshot.estimate) & (snapshot.std_error > 0)
    p = p_values(snapshot.estimate[good] - baseline, snapshot.std_error[good])
    return int((adjusted(p) <= rate).sum())
