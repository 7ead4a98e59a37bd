"""How many distinct report ids a shard has taken, roughly, known without reading them again.

A sample of the ids themselves: those whose mixed form is small, where smaller is the less there shall be of
them (adaptive sampling; Flajolet, Computing 43, 1990). A copy of an id changes nothing, so however often one
device repeats itself, the estimate stays where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ldpbeam.arrays import Uints

SIZE = 128
"""Sampled ids, at most, of as many distinct ones as there are reports; at least half of that. The estimate's
relative standard deviation is then at most 1 / 8."""

_BLOCK = 1 << 13  # ids whose mixed forms stay in a processor's cache
_ODD = np.uint64(0xD1342543DE82EF95)  # not that of shards: these ids must not be all of one shard, or none


@dataclass(frozen=True)
class DistinctSample:
    """Ids that were sampled."""

    bits: int = 0
    names: list[int] = field(default_factory=list)

    @property
    def distinct(self) -> int:
        """About how many distinct report ids were taken."""
        return len(self.names) << self.bits

    def including(self, ids: Uints, reports: int) -> DistinctSample:
        bits = max(self.bits, (reports // SIZE).bit_length())
        largest = (1 << (64 - bits)) - 1
        names = {name for name in self.names if name <= largest}
        for at in range(0, ids.size, _BLOCK):
            mixed = ids[at : at + _BLOCK] * _ODD
            names.update(mixed[mixed <= np.uint64(largest)].tolist())
        return DistinctSample(bits, sorted(names))
