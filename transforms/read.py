"""The public transform that reads files of reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apache_beam as beam

from .arguments import at_least_one, instant
from .sources.chunks import Piece, ReadLimits
from .sources.files import read_files


class ReadReports(beam.PTransform):
    """Reads files of reports, in every format that ``ldpbeam run`` reads, for the other transforms.

    At the root of a pipeline it takes a pattern or a path, or a list of them. Behind paths, or behind
    ``fileio.MatchFiles``, it takes none. No content of a file raises an error: a record that is no report
    becomes a rejected row. The file system says when a file was written; a report of an epoch that had not
    begun by then is rejected.
    """

    def __init__(
        self,
        pattern: str | Sequence[str] | None = None,
        *,
        max_expansion: int = 100,
        attempts: int = 3,
        not_after: Any = None,
    ) -> None:
        """Say what to read, and how much of it.

        Args:
            pattern: path or pattern of any file system that Beam knows, or a list of them; a job that finds
                no such file fails.
            max_expansion: bytes of reports that each stored byte of a file may stand for.
            attempts: how often reading is tried where it fails.
            not_after: when the files had been written, as an ISO 8601 instant or in seconds since 1970; by
                default the time that the file system has for each file.

        Raises:
            TypeError: the patterns are no texts, or there are none in the list.
            UsageError: ``max_expansion`` or ``attempts`` is below 1, or ``not_after`` is no instant.
        """
        super().__init__()
        self._patterns = None if pattern is None else [pattern] if isinstance(pattern, str) else list(pattern)
        if self._patterns is not None and not (
            self._patterns and all(isinstance(one, str) for one in self._patterns)
        ):
            raise TypeError("ReadReports takes a pattern or a list of them, each a text, and at least one")
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
        if behind == (self._patterns is not None):
            raise TypeError(
                "ReadReports takes patterns, at the root of a pipeline, or a collection of paths, not both"
            )
        if self._patterns is not None:
            from apache_beam.io.fileio import EmptyMatchTreatment, MatchAll  # a run does without it

            match = MatchAll(EmptyMatchTreatment.DISALLOW)
            # Files are handed out to all workers, not to the one that listed them.
            paths = paths | beam.Create(self._patterns) | "Match" >> match | "Spread" >> beam.Reshuffle()
        return paths | "Read" >> read_files(self._limits)
