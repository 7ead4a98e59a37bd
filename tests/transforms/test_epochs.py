"""Windows are the epochs of the collection."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import IntervalWindow

from ldpbeam.collection.epochs import Epochs
from ldpbeam.reports import ReportColumns
from ldpbeam.transforms.stages.epochs import window_by_epoch


@pytest.mark.parametrize(
    "epochs",
    [
        Epochs(3600, 0, 100),
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

    one = ReportColumns(7, 3, np.array([5], np.uint64), np.zeros((1, 2), np.uint8))
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
