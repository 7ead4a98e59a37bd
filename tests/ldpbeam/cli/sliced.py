"""Results of a collection with slices, as a run writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import ldpbeam
from ldpbeam.admission import ReportColumns, as_sent, batch_message
from ldpbeam.collection.slices import NO_SLICES, Slice
from ldpbeam.slice_support import with_slices
from ldpbeam.wire.codec import framed
from tests.ldpbeam.cli.calling import told


def run_of(folder: Path, definition: str, epochs: Iterable[tuple[Sequence[int], Sequence[Slice]]]) -> Path:
    """The output of a run over reports of devices with these values and slices, epoch by epoch."""
    (folder / "c.yaml").write_text(definition)
    collection = ldpbeam.load_collection(folder / "c.yaml")
    places = {slice_: digest for digest, slice_ in collection.slice_digests.items()}
    fleet: ldpbeam.Fleet | None = None
    with (folder / "reports.pb").open("wb") as file:
        for epoch, (values, slices) in enumerate(epochs):
            fleet = fleet or ldpbeam.Fleet(replace(collection, slices=NO_SLICES), len(values), 5)
            made = fleet.report(ldpbeam.Index(np.array(values)), epoch)
            digests = np.array([places[slice_] for slice_ in slices], np.uint64)
            columns = ReportColumns(
                collection.digest, epoch, made.report_ids, with_slices(made.payloads, digests)
            )
            for part in as_sent(collection, columns):
                file.write(framed(batch_message(part)))
    told(
        "run", "--collection", folder / "c.yaml", "--input", folder / "reports.pb", "--output", folder / "out"
    )
    return folder / "out"
