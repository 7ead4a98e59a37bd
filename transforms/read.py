"""The public transform that reads files of reports."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from .arguments import at_least_one, instant
from .sources.chunks import Piece, ReadLimits
from .sources.files import read_files


class ReadReports(beam.PTransform):
    """Reads files of reports, in every format that ``ldpbeam run`` reads, for the other transforms.

    At the root of a pipeline it takes a pattern. Behind paths, or behind ``fileio.MatchFiles``, it takes no
    pattern. No content of a file raises an error: a record that is no report becomes a rejected row. The
    file system says when a file was written; a report of an epoch that had not begun by then is rejected.
    """

    def __init__(
        self,
        pattern: str | None = None,
        *,
        max_expansion: int = 100,
        attempts: int = 3,
        not_after: Any = None,
    ) -> None:
        """Say what to read, and how much of it."""
        super().__init__()
        self._pattern = pattern
        self._limits = ReadLimits(
            at_least_one("max_expansion", max_expansion),
            at_least_one("attempts", attempts),
            instant("not_after", not_after),
        )

    def expand(self, paths: Any) -> beam.PCollection[Piece]:
        """Read.

        Raises:
            TypeError: there are a pattern and paths, or neither.
        """
        behind = isinstance(paths, beam.PCollection)
        if behind == (self._pattern is not None):
            raise TypeError(
                "ReadReports takes a pattern, at the root of a pipeline, or a collection of paths, not both"
            )
        if self._pattern is not None:
            from apache_beam.io.fileio import EmptyMatchTreatment, MatchFiles  # a run does without it

            match = MatchFiles(self._pattern, EmptyMatchTreatment.DISALLOW)
            # Files are handed out to all workers, not to the one that listed them.
            paths = paths | "Match" >> match | "Spread" >> beam.Reshuffle()
        return paths | "Read" >> read_files(self._limits)
