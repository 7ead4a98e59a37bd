"""Columns of an epoch to its shards."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from ldpbeam.admission import put_together
from ldpbeam.dedup import shard_columns

from ..coders import ReportColumnsCoder
from ..stages.reports import EpochParts
from .state import ShardKey


class SplitByShard(beam.DoFn):
    """Columns of an epoch to its shards, encoded once."""

    def __init__(self, bits: int) -> None:
        """2**bits shards per epoch."""
        self._bits = bits
        self._coder = ReportColumnsCoder()

    def process(self, pair: EpochParts) -> Iterator[tuple[ShardKey, bytes]]:
        """One part per shard."""
        (digest, epoch), some = pair
        columns = some[0] if len(some) == 1 else put_together(some)
        parts = dict(shard_columns(columns, self._bits))
        for shard in range(1 << self._bits):
            part = parts.get(shard)
            yield (digest, epoch, shard), b"" if part is None else self._coder.encode(part)
