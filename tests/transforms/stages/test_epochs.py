"""Windows are the epochs of the collection, and in each of them every report id counts once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import IntervalWindow

from ldpbeam.admission import Parts, ReportColumns
from ldpbeam.arrays import read_only
from ldpbeam.collection.epochs import Epochs
from ldpbeam.transforms.coders import register_coders
from ldpbeam.transforms.stages.columns_on_disk import Spill
from ldpbeam.transforms.stages.epochs import once_per_report_id, window_by_epoch
from ldpbeam.transforms.stages.reports import ACCOUNTING


@pytest.mark.parametrize(
    "epochs",
    [
        Epochs(6 * 3600, 1_767_225_600 + 17, 100),
        Epochs(604_800, 253_402_300_799 - 10 * 604_800, 10),
    ],
)
def test_windows_are_the_epochs(epochs: Epochs) -> None:
    """First and last planned epoch fall into windows of their own start and length, also far away."""

    class Window(beam.DoFn):
        def process(
            self, pair: tuple[tuple[str, int], object], window: object = beam.DoFn.WindowParam
        ) -> object:
            assert isinstance(window, IntervalWindow)
            yield pair[0][1], int(window.start.micros), int(window.end.micros)

    one = Parts([ReportColumns(7, 3, np.array([5], np.uint64), np.zeros((1, 2), np.uint8))])
    last = epochs.count - 1
    wanted = [(e, epochs.start(e) * 10**6, (epochs.start(e) + epochs.length) * 10**6) for e in (0, 1, last)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        held = pipeline | beam.Create([(("a", e), one) for e in (0, 1, last)])
        found = (
            held
            | window_by_epoch({"a": epochs})
            | beam.ParDo(Window())
            | beam.WindowInto(beam.window.GlobalWindows())
        )
        assert_that(found, equal_to(wanted))


class _Rows(beam.DoFn):
    def process(
        self, pair: Any, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[tuple[int, int, int, bytes]]:
        (_, epoch), parts = pair
        for columns in parts:
            for name, payload in zip(columns.report_ids.tolist(), columns.payloads, strict=True):
                yield epoch, int(window.start.micros), name, bytes(payload)


@pytest.mark.parametrize(("above", "bits"), [(None, 0), (None, 2), (0, 2), (60, 0)])
def test_one_report_per_id_and_what_was_left_out_is_booked(
    above: int | None, bits: int, tmp_path: Path
) -> None:
    """Gathered by a runner alone, or on disk from a size on: the same reports, windows and entries."""
    register_coders()
    epochs = Epochs(3600, 0, 100)
    sent = {
        0: [[(1, b"ab"), (2, b"aa"), (1, b"ab")], [(3, b"zz"), (2, b"ac"), (1, b"ab")], [(2, b"ab")]],
        1: [[(1, b"xx")], [(9, b"yy")]],  # the same id, of another epoch
        2: [[(5, b"cc")], [(5, b"cc")]],
    }
    elements = []
    for epoch, batches in sent.items():
        parts = []
        for batch in batches:
            payloads = np.frombuffer(b"".join(p for _, p in batch), np.uint8).reshape(-1, 2)
            ids = np.array([name for name, _ in batch], np.uint64)
            parts.append(ReportColumns(7, epoch, ids, read_only(payloads)))
        elements += [(("a", epoch), Parts(parts[:2])), *((("a", epoch), Parts([one])) for one in parts[2:])]
    hour = 3600 * 10**6
    wanted = [(0, 0, 1, b"ab"), (0, 0, 2, b"aa"), (0, 0, 3, b"zz")]
    wanted += [(1, hour, 1, b"xx"), (1, hour, 9, b"yy"), (2, 2 * hour, 5, b"cc")]
    booked = {(0, "duplicate"): 2, (0, "rejected.conflicting_report_id"): 2, (2, "duplicate"): 1}
    spill = None if above is None else Spill(str(tmp_path), above)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        held = pipeline | beam.Create(elements, reshuffle=False)
        once = held | window_by_epoch({"a": epochs}) | once_per_report_id(bits, spill)
        rows = once.columns | beam.ParDo(_Rows()) | "All" >> beam.WindowInto(beam.window.GlobalWindows())
        entries = (
            once[ACCOUNTING]
            | beam.WindowInto(beam.window.GlobalWindows())
            | beam.Map(lambda entry: ((entry[0][0][1], entry[0][1]), entry[1]))
            | beam.CombinePerKey(sum)
        )
        assert_that(rows, equal_to(wanted), "Reports")
        assert_that(entries, equal_to(list(booked.items())), "Entries")
