"""Before stage 1, live sources: messages of a broker become chunks, as many at once as a bundle has.

A message holds one Report or one ReportBatch. When it arrived is the broker's publish time, or what a
collector in front of the broker wrote into an attribute. Of a message without a time nobody knows when it
arrived: it is neither late nor from the future.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldpbeam.errors import Reason
from ldpbeam.text import clean
from ldpbeam.wire import codec

from ..composite import composite
from .chunks import BadSource, Chunk, Piece

_AT_ONCE = 4096
_BYTES_AT_ONCE = 4 << 20
_PAIR = 2
_ABSENT = object()
_NAMES_SHOWN = 200
"""Characters of the names of an element's fields in an explanation."""


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
class _WaitingMessages:
    """Messages that wait for more: their bytes, arrivals in microseconds where known, and names."""

    messages: list[bytes] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    size: int = 0

    def clear(self) -> None:
        self.messages, self.arrivals, self.names, self.size = [], [], [], 0


@dataclass(frozen=True)
class _MessageFault:
    kind: str
    explanation: str


class GatherMessages(beam.DoFn):
    """Messages of the global window to :class:`Chunk`; an element's timestamp is the arrival of its
    message."""

    def __init__(self, source: str, *, field: str = "", arrival: bool = True) -> None:
        """``source`` is named in rejects; without ``arrival`` no timestamp says when a message arrived."""
        self._source = source
        self._field = field
        self._arrival = arrival
        self.start_bundle()

    def start_bundle(self) -> None:
        self._known, self._unknown = _WaitingMessages(), _WaitingMessages()
        self._bad: dict[str, BadSource] = {}

    def process(self, message: Any, when: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if isinstance(message, Piece):
            yield message
            return
        data, name = self._content(message)
        if isinstance(data, _MessageFault):
            first = BadSource(self._source, Reason.MALFORMED, count=0, detail=data.explanation)
            bad = self._bad.get(data.kind, first)
            self._bad[data.kind] = replace(bad, count=bad.count + 1)
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

    def _content(self, message: Any) -> tuple[bytes | bytearray | memoryview | _MessageFault, str]:
        name = ""
        if self._field:
            of_table = isinstance(message, Mapping)
            get = message.get if of_table else partial(getattr, message)
            data, where = get(self._field, _ABSENT), f"The field {self._field!r}"
        elif isinstance(message, tuple) and len(message) == _PAIR:
            data, where = message[1], "The value of a pair"
        else:
            data, where = getattr(message, "data", message), "The message"
            name = str(getattr(message, "message_id", None) or "")
        if isinstance(data, bytes | bytearray | memoryview):
            return data, name
        return (_no_field(self._field, message) if data is _ABSENT else _no_bytes(where, data)), name

    def finish_bundle(self) -> Iterator[Any]:
        for bad in self._bad.values():
            yield WindowedValue(bad, MIN_TIMESTAMP, [GlobalWindow()])
        for held in (self._known, self._unknown):
            if held.messages:
                yield self._chunk(held)

    def _chunk(self, held: _WaitingMessages) -> Any:
        arrivals = np.array(held.arrivals, np.int64) if held is self._known else None
        chunk = Chunk(self._source, 0, codec.joined(held.messages), arrivals, tuple(held.names))
        held.clear()
        # The earliest arrival: what follows must not be taken for later than its reports are.
        when = MIN_TIMESTAMP if arrivals is None else Timestamp(micros=int(arrivals.min()))
        return WindowedValue(chunk, when, [GlobalWindow()])


def _names_of(element: Any) -> list[str]:
    """Of the fields of a dictionary or a row; none of anything else."""
    if hasattr(element, "_asdict"):
        element = element._asdict()
    return sorted(map(str, element)) if isinstance(element, Mapping) else []


def _no_field(name: str, element: Any) -> _MessageFault:
    """Other elements may have other fields, which anybody may name: they are counted with this one."""
    names = ", ".join(_names_of(element))
    has = f"it has {clean(names, _NAMES_SHOWN)}" if names else f"it is {_type_of(element)} and has none"
    return _MessageFault("no field", f"The element has no field {name!r}; {has}.")


def _no_bytes(where: str, data: Any) -> _MessageFault:
    if data is None:
        return _MessageFault("null", f"{where} is null.")
    remedy = "give bytes"
    if isinstance(data, str):
        remedy = "decode base64 text in front, as with base64.b64decode"
    elif _names_of(data):
        remedy = "name the field that holds the message, as with field='payload'"
    kind = _type_of(data)
    return _MessageFault(kind, f"{where} is {kind} and not bytes; {remedy}.")


def _type_of(data: Any) -> str:
    return clean(type(data).__name__, _NAMES_SHOWN)
