"""Which values deserve a chart: those that stand out of the noise, not those that are large."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipelines.page.data import Snapshot

_COLUMNS = 8
_SEEN, _Z, _N0, _SUM0, _VAR0, _N1, _SUM1, _VAR1 = range(_COLUMNS)


class Standing:
    """Sums over epochs from which the distance of each value from 1/k, and its change, follow.

    The change compares the mean of the later half of the epochs with that of the earlier half.
    """

    def __init__(self, halves: int) -> None:
        """`halves` is the place of the first epoch of the later half; 0 means no comparison."""
        self._halves = halves
        self._values: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._sums: NDArray[np.float64] = np.zeros((_COLUMNS, 0))

    def add(self, place: int, snapshot: Snapshot, baseline: float) -> None:
        """Add the epoch at `place` in time order."""
        self._make_room(snapshot.values)
        good = np.isfinite(snapshot.estimate) & (snapshot.std_error > 0)
        where = np.searchsorted(self._values, snapshot.values[good])
        estimate, error = snapshot.estimate[good], snapshot.std_error[good]
        late = place >= self._halves
        sums = self._sums
        sums[_SEEN, where] += 1
        sums[_Z, where] += (estimate - baseline) / error
        sums[_N1 if late else _N0, where] += 1
        sums[_SUM1 if late else _SUM0, where] += estimate
        sums[_VAR1 if late else _VAR0, where] += error**2

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

    def _scores(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        sums = self._sums
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.nan_to_num(sums[_Z] / sums[_SEEN])
            change = np.nan_to_num(sums[_SUM1] / sums[_N1] - sums[_SUM0] / sums[_N0])
            error = np.sqrt(sums[_VAR1] / sums[_N1] ** 2 + sums[_VAR0] / sums[_N0] ** 2)
            jump = np.nan_to_num(change / error)
        return distance, jump, change

    def _make_room(self, values: NDArray[np.int64]) -> None:
        if np.array_equal(values, self._values):
            return
        union = np.union1d(self._values, values)
        sums = np.zeros((_COLUMNS, len(union)))
        sums[:, np.searchsorted(union, self._values)] = self._sums
        self._values, self._sums = union, sums


def discoveries(snapshot: Snapshot, baseline: float, rate: float = 0.05) -> int:
    """How many values differ from `baseline` at a false-discovery rate (Benjamini–Hochberg)."""
    good = np.isfinite(snapshot.estimate) & (snapshot.std_error > 0)
    if not good.any():
        return 0
    z = np.abs(snapshot.estimate[good] - baseline) / snapshot.std_error[good]
    p = np.sort([math.erfc(item / math.sqrt(2)) for item in z.tolist()])
    passed = np.nonzero(p <= rate * np.arange(1, len(p) + 1) / len(p))[0]
    return int(passed[-1]) + 1 if len(passed) else 0
