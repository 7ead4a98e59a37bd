"""Stage 3 of 5, support: one CombineFn counts for every protocol (adapts ldpbeam.support)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam

from ldpbeam.admission import Parts
from ldpbeam.collection.collection import Collection
from ldpbeam.support import Accumulated, added, merged

from ..coders import OptionalSupportCoder


@beam.typehints.with_input_types(Parts)
@beam.typehints.with_output_types(Any)  # else Beam infers that from the code of its own step
class CountSupportOfEach(beam.CombineFn):
    """The support counts of batches, for several collections; all reports of a key are of one of them."""

    def __init__(self, collections: Sequence[Collection]) -> None:
        self._counters = {c.digest: c.counter for c in collections}

    def create_accumulator(self, *_: object) -> Accumulated | None:
        """Nothing; of which collection it is, nobody knows yet."""
        return None

    def add_input(self, accumulator: Accumulated | None, parts: Parts, *_: object) -> Accumulated | None:
        for columns in parts:
            accumulator = added(accumulator, columns.digest, columns.payloads, self._counters)
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[Accumulated | None], *_: object
    ) -> Accumulated | None:
        total: Accumulated | None = None
        for accumulator in accumulators:
            total = merged(total, accumulator, self._counters)
        return total

    def extract_output(self, accumulator: Accumulated | None, *_: object) -> Accumulated | None:
        """The accumulator itself, counts or reports that wait; a key has columns, so it is not None."""
        return accumulator

    def get_accumulator_coder(self) -> OptionalSupportCoder:
        return OptionalSupportCoder()
