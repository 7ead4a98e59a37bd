"""Before stage 1, live sources: messages of a broker become chunks, as many at once as a bundle has.

A message holds one Report or one ReportBatch. When it arrived is the broker's publish time, or what a
collector in front of the broker wrote into an attribute. Of a message without a time nobody knows when it
arrived: it is neither late nor from the future.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.errors import Reason
from ldpbeam.wire import codec

from ..composite import composite
from .chunks import BadSource, Chunk, Piece

_AT_ONCE = 4096
_BYTES_AT_ONCE = 4 << 20
_PAIR = 2


@composite
def gather_messages(
    messages: beam.PCollection[Any], source: str, *, field: str = "", arrival: bool = True
) -> beam.PCollection[Piece]:
    """:class:`GatherMessages` behind any windows and triggers: neither plays a part in what follows."""
    if not messages.windowing.is_default():
        messages = messages | "Unwindowed" >> beam.WindowInto(GlobalWindows())
    gather = GatherMessages(source, field=field, arrival=arrival)
    return messages | "Chunks" >> beam.ParDo(gather).with_output_types(Piece)


@dataclass
class _Held:
    """Messages that wait for more: their bytes, arrivals in microseconds where known, and names."""

    messages: list[bytes] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    size: int = 0

    def clear(self) -> None:
        """Begin again with nothing."""
        self.messages, self.arrivals, self.names, self.size = [], [], [], 0


class GatherMessages(beam.DoFn):
    """Messages of the global window to :class:`Chunk`; an element's timestamp is the arrival of its message.

    Takes ``bytes``, ``(key, bytes)`` pairs as Kafka has them, Beam's ``PubsubMessage``, or rows and
    dictionaries of which ``field`` holds the message; pieces of sources pass as they are. An element that
    nobody gave a time (of ``Create``, a file, a table) has Beam's earliest one: its arrival is unknown.
    """

    def __init__(self, source: str, *, field: str = "", arrival: bool = True) -> None:
        """``source`` is named in rejects; without ``arrival`` no timestamp says when a message arrived."""
        self._source = source
        self._field = field
        self._arrival = arrival
        self._known, self._unknown = _Held(), _Held()

    def start_bundle(self) -> None:
        """Begin with nothing."""
        self._known, self._unknown = _Held(), _Held()

    def process(self, message: Any, when: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Hold a message; let go of what is held when it is enough. What is no message is a rejection."""
        if isinstance(message, Piece):
            yield message
            return
        data, name = self._content(message)
        if not isinstance(data, bytes | bytearray | memoryview):
            kind = f"an element holds {type(data).__name__} in the place of a message; give bytes."
            yield BadSource(self._source, Reason.MALFORMED, detail=kind.capitalize())
            return
        known = self._arrival and when != MIN_TIMESTAMP
        held = self._known if known else self._unknown
        held.messages.append(bytes(data))
        held.names.append(name)
        held.size += len(data)
        if known:
            held.arrivals.append(when.micros)
        if len(held.messages) >= _AT_ONCE or held.size >= _BYTES_AT_ONCE:
            yield self._chunk(held)

    def _content(self, message: Any) -> tuple[Any, str]:
        """What should be the bytes of a message, and its name; a message without content is an empty one."""
        name = ""
        if self._field:
            of_table = isinstance(message, Mapping)
            data = message.get(self._field) if of_table else getattr(message, self._field, None)
        elif isinstance(message, tuple) and len(message) == _PAIR:
            data = message[1]
        else:
            data = getattr(message, "data", message)
            name = str(getattr(message, "message_id", None) or "")
        return (b"" if data is None else data), name

    def finish_bundle(self) -> Iterator[Any]:
        """The rest."""
        for held in (self._known, self._unknown):
            if held.messages:
                yield self._chunk(held)

    def _chunk(self, held: _Held) -> Any:
        arrivals = np.array(held.arrivals, np.int64) if held is self._known else None
        chunk = Chunk(self._source, 0, codec.joined(held.messages), arrivals, tuple(held.names))
        held.clear()
        # The earliest arrival: what follows must not be taken for later than its reports are.
        when = MIN_TIMESTAMP if arrivals is None else Timestamp(micros=int(arrivals.min()))
        return WindowedValue(chunk, when, [GlobalWindow()])
