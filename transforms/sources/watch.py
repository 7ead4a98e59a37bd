"""A folder of reports that grows: read by the engine on one machine alone."""

from collections.abc import Mapping

import apache_beam as beam

from ldpbeam.errors import UsageError


def read(given: Mapping[str, str], runner: str, *, portable: bool) -> beam.PTransform:
    # ldpbeam.engine.sources.watched_folder.WatchedFolder reads it.
    raise UsageError(
        "E-USAGE-OPTION",
        f"{runner} does not watch a folder",
        remedy="Leave --runner out, or let ldpbeam collect publish to a --topic and read a --subscription.",
    )
