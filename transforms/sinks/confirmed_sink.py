"""The base of sinks that send results to a service, and must not lose one that the service has not taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import EpochHistogram
from ldpbeam.tables import fixed_columns

OUTSTANDING, OUTSTANDING_BYTES = 100, 64 << 20
"""What may be on its way and not confirmed."""


class ConfirmedSink(beam.DoFn, ABC):
    """Sends histograms to a service, and passes them on, in their order, once the service has confirmed them.

    At least once: a bundle is committed when all that it sends is confirmed, and sent again when it fails.
    """

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.fixed: dict[str, Any] = {}
        """:func:`~ldpbeam.tables.fixed_columns` of the collection, from ``setup`` on."""
        self._waiting: list[WindowedValue] = []
        self._sent = 0

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
        """Send the histogram; returns how many bytes wait for a confirmation because of it."""

    @abstractmethod
    def confirm(self) -> None:
        """Wait until everything that was sent is confirmed."""

    @abstractmethod
    def disconnect(self) -> None:
        """Disconnect; also where nothing was ever connected."""

    def setup(self) -> None:
        self.fixed = fixed_columns(self.collection)
        self.connect()

    def start_bundle(self) -> None:
        self.begin()
        self._waiting, self._sent = [], 0

    def process(
        self,
        histogram: EpochHistogram,
        when: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> list[WindowedValue]:
        self._waiting.append(WindowedValue(histogram, when, (window,)))
        self._sent += self.send(histogram)
        enough = self._sent > OUTSTANDING_BYTES or len(self._waiting) > OUTSTANDING
        return self.finish_bundle() if enough else []

    def finish_bundle(self) -> list[WindowedValue]:
        """Pass on the rest: nothing is committed that the service has not confirmed."""
        self.confirm()
        confirmed, self._waiting, self._sent = self._waiting, [], 0
        return confirmed

    def teardown(self) -> None:
        self.disconnect()
