"""The base of sinks that send results to a service, and must not lose one that the service has not taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram
from ldpbeam.tables import fixed_columns


class ConfirmedSink(beam.DoFn, ABC):
    """Sends histograms to a service, and passes them on, in their order, once the service has confirmed them.

    At least once: a bundle is committed when all that it sends is confirmed, and sent again when it fails.
    """

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.fixed: dict[str, Any] = {}
        """:func:`~ldpbeam.tables.fixed_columns` of the collection, from ``setup`` on."""
        self.waiting: deque[WindowedValue] = deque()
        """Histograms that are not confirmed, the oldest first."""

    @staticmethod
    @abstractmethod
    def check(target: str) -> None:
        """Raise UsageError if the target is not named as it must be, or a library is missing."""

    @abstractmethod
    def connect(self) -> None:
        """Connect to the service."""

    @abstractmethod
    def begin(self) -> None:
        """Forget what an earlier bundle, which failed, has left unconfirmed."""

    @abstractmethod
    def send(self, histogram: EpochHistogram) -> int:
        """Send the histogram, the newest of those that wait; returns how many of the oldest are confirmed."""

    @abstractmethod
    def confirm(self) -> None:
        """Wait until everything that was sent is confirmed."""

    @abstractmethod
    def disconnect(self) -> None:
        """Disconnect; also where nothing was ever connected."""

    def setup(self) -> None:
        """Connect, once per worker."""
        self.fixed = fixed_columns(self.collection)
        self.connect()

    def start_bundle(self) -> None:
        """Forget what a bundle before this one did not finish."""
        self.begin()
        self.waiting.clear()

    def process(
        self,
        histogram: EpochHistogram,
        when: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[WindowedValue]:
        """Send one histogram, and pass on those that are confirmed."""
        self.waiting.append(WindowedValue(histogram, when, (window,)))
        for _ in range(self.send(histogram)):
            yield self.waiting.popleft()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Pass on the rest: nothing is committed that the service has not confirmed."""
        self.confirm()
        while self.waiting:
            yield self.waiting.popleft()

    def teardown(self) -> None:
        """Give the connection back."""
        self.disconnect()
