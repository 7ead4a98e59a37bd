"""The files of a run: those that it reads, and those in which columns and counts wait."""

from __future__ import annotations

import apache_beam as beam

from ldpbeam.job.config import RunConfig
from ldpbeam.job.inputs import waits_on_disk
from ldpbeam.transforms import ReadReports
from ldpbeam.transforms.composite import composite
from ldpbeam.transforms.sources.chunks import Piece
from ldpbeam.transforms.stages.columns_on_disk import Spill

SPILLED = "spilled"
"""Folder below the output for columns that wait on disk; whoever runs the pipeline removes it."""


@composite
def read_inputs(pipeline: beam.Pipeline, config: RunConfig) -> beam.PCollection[Piece]:
    """The files that the options name, read in pieces; several workers share them."""
    given = config.input
    files = pipeline | "Start" >> beam.Impulse() | "Files" >> beam.FlatMap(_paths, given.encoded)
    if config.job.spread:
        files = files | "Spread" >> beam.Reshuffle()
    return files | "Read" >> ReadReports(
        max_expansion=given.max_expansion, attempts=given.read_attempts, not_after=given.not_after
    )


def spill(config: RunConfig) -> Spill | None:
    """Where columns wait on disk; nowhere but where steps share one."""
    if not waits_on_disk(config.job.runner, config.outputs.output):
        return None
    return Spill(f"{config.outputs.output}/{SPILLED}", config.counting.spill_above << 20)


def _paths(_: bytes, paths: list[bytes]) -> list[bytes]:
    return paths
