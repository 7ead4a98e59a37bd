"""Before stage 1, live sources: messages of a broker become chunks, as many at once as a bundle has.

A message holds one Report or one ReportBatch. When it arrived is the broker's publish time, or what a
collector in front of the broker wrote into an attribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.wire import codec

from ..composite import composite
from .chunks import Chunk, Piece

_AT_ONCE = 4096
_BYTES_AT_ONCE = 4 << 20


@composite
def gather_messages(messages: beam.PCollection[Any], source: str) -> beam.PCollection[Piece]:
    """:class:`GatherMessages` behind any windows and triggers: neither plays a part in what follows."""
    if not messages.windowing.is_default():
        messages = messages | "Unwindowed" >> beam.WindowInto(GlobalWindows())
    return messages | "Chunks" >> beam.ParDo(GatherMessages(source)).with_output_types(Piece)


class GatherMessages(beam.DoFn):
    """Messages of the global window to :class:`Chunk`; an element's timestamp is the arrival of its message.

    Takes ``bytes``, ``(key, bytes)`` pairs as Kafka has them, or Beam's ``PubsubMessage``.
    """

    def __init__(self, source: str) -> None:
        """``source`` names the topic or subscription in rejects."""
        self._source = source
        self._held: list[bytes] = []
        self._arrivals: list[int] = []
        self._names: list[str] = []
        self._size = 0

    def start_bundle(self) -> None:
        """Begin with nothing."""
        self._clear()

    def process(self, message: Any, when: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Hold a message; let go of what is held when it is enough."""
        data = getattr(message, "data", message)
        if isinstance(data, tuple):
            data = data[1]
        data = data or b""
        self._held.append(data)
        self._arrivals.append(when.micros)
        self._names.append(str(getattr(message, "message_id", None) or ""))
        self._size += len(data)
        if len(self._held) >= _AT_ONCE or self._size >= _BYTES_AT_ONCE:
            yield self._chunk()

    def finish_bundle(self) -> Iterator[Any]:
        """The rest."""
        if self._held:
            yield self._chunk()

    def _chunk(self) -> Any:

        arrivals = np.array(self._arrivals, np.int64)
        chunk = Chunk(self._source, 0, codec.joined(self._held), arrivals, tuple(self._names))
        self._clear()
        # The earliest arrival: what follows must not be taken for later than its reports are.
        return WindowedValue(chunk, Timestamp(micros=int(arrivals.min())), [GlobalWindow()])

    def _clear(self) -> None:
        self._held, self._arrivals, self._names, self._size = [], [], [], 0
