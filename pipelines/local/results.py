"""Results of the local engine: landed columns through stages 2 to 5, by the same transforms as files."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam

from ldpbeam.accounting import Entry
from ldpbeam.collection.collection import Collection
from ldpbeam.pipelines.beam_job import make_pipeline, run_to_end
from ldpbeam.pipelines.bounded import PublishCollection
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.pipelines.local.landing import EpochKey, Landing, read_segment
from ldpbeam.transforms.coders import register_coders
from ldpbeam.transforms.stages.accounting import Publication
from ldpbeam.transforms.stages.epochs import EpochColumns
from ldpbeam.transforms.stages.reports import collection_tag

__all__ = ["Due", "publish_due"]

ENGINE = "local"
"""What the local engine calls its job: there is only ever one on an output directory."""


@dataclass(frozen=True)
class Due:
    """A result to make.

    Attributes:
        key: (digest, epoch).
        segments: where its reports are; none where only the books have changed.
        entries: of its books, all there are.
        told: what the result is.
    """

    key: EpochKey
    segments: tuple[int, ...]
    entries: tuple[Entry, ...]
    told: Publication


class ReadSegments(beam.DoFn):
    """(path, keys) to ``(epoch, ReportColumns)`` under the tag of each collection."""

    def __init__(self, collections: Mapping[int, Collection]) -> None:
        """Keep the tags by digest."""
        super().__init__()
        self._tags = {digest: collection_tag(c) for digest, c in collections.items()}

    def process(self, element: tuple[str, tuple[EpochKey, ...]]) -> Iterator[beam.pvalue.TaggedOutput]:
        """All blocks that are asked for."""
        path, keys = element
        for columns in read_segment(Path(path), frozenset(keys)):
            pair: EpochColumns = (columns.epoch, columns)
            yield beam.pvalue.TaggedOutput(self._tags[columns.digest], pair)


def publish_due(config: RunConfig, landing: Landing, due: list[Due]) -> None:
    """Make results and publish them, in one pipeline that ends."""
    quiet = os.environ.get("LDPBEAM_DEBUG") != "1"
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL if quiet else logging.ERROR)
    register_coders()
    wanted: dict[int, list[EpochKey]] = {}
    for each in due:
        for number in each.segments:
            wanted.setdefault(number, []).append(each.key)
    reads = [(str(landing.path(number)), tuple(keys)) for number, keys in sorted(wanted.items())]
    concerned = {digest for digest, _ in (d.key for d in due)}
    collections = [c for c in config.collections if c.digest_hex in concerned]
    tags = {collection_tag(c): EpochColumns for c in collections}
    settings = config.changed(job=ENGINE)
    pipeline = make_pipeline(config)
    columns = (
        pipeline
        | "Segments" >> beam.Create(reads, reshuffle=False)
        | "Read"
        >> beam.ParDo(ReadSegments({c.digest: c for c in collections}))
        .with_output_types(Any, **tags)
        .with_outputs(*tags)
    )
    entries = pipeline | "Entries" >> beam.Create(
        [entry for each in due for entry in each.entries], reshuffle=False
    ).with_output_types(Entry)
    for collection in collections:
        told = {d.key[1]: d.told for d in due if d.key[0] == collection.digest_hex}
        inputs = {"columns": columns[collection_tag(collection)], "entries": entries}
        label = f"{collection.name}@{collection.version}"
        _ = inputs | label >> PublishCollection(collection, settings, told)
    run_to_end(pipeline)
