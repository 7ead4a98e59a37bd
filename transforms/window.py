"""Windows for pipelines that count in a graph of their own."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode, DefaultTrigger

from ldpbeam.errors import UsageError

from .arguments import Collections, OfCollections
from .stages.epochs import common_windows, window_by_epoch


class WindowByEpoch(OfCollections):
    """Puts elements that are keyed by (digest, epoch) into the window that ends with their epoch.

    The windows are Beam's fixed windows, of a length that divides the epochs of all collections: with one
    collection the windows are its epochs. Windows know nothing of report ids: copies of a report count.
    """

    def __init__(self, collections: Collections, **window_into: Any) -> None:
        """Say of which collections the epochs are.

        Args:
            collections: a collection, the path of its file or its definition, or several.
            window_into: further arguments of Beam's ``WindowInto``: ``trigger``, ``accumulation_mode``,
                ``timestamp_combiner``, ``allowed_lateness``.

        Raises:
            CollectionError, UsageError, TypeError: no collections, or unsound ones.
            UsageError: the windows discard earlier panes, so that a later one has a part of its epoch.
        """
        super().__init__(collections)
        self._epochs = {one.digest_hex: one.epochs for one in self.collections}
        self._into = window_into
        windows = beam.WindowInto(common_windows(self._epochs.values()), **window_into)
        refuse_discarding(windows.windowing)

    def expand(self, keyed: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Each element in the last window of its epoch, with a time at the end of it."""
        return keyed | "Window" >> window_by_epoch(self._epochs, keyed.element_type, **self._into)


def refuse_discarding(windowing: Windowing) -> None:
    """Refuse windows whose later panes hold only what came since the earlier ones."""
    panes = not isinstance(windowing.triggerfn, DefaultTrigger) or windowing.allowed_lateness.micros
    if panes and windowing.accumulation_mode == AccumulationMode.DISCARDING:
        raise UsageError(
            "E-USAGE-TRANSFORM",
            "a pane of DISCARDING windows counts only a part of its epoch, and an estimate of it is wrong",
            remedy="Give accumulation_mode=AccumulationMode.ACCUMULATING, so that every pane restates all.",
        )
