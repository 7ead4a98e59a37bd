"""Stage 1 as a public transform: messages, rows or files in, admitted reports and rejected rows out."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import apache_beam as beam
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.transforms.window import GlobalWindows, TimestampedValue
from apache_beam.typehints import typehints
from apache_beam.typehints.schemas import named_fields_from_element_type

from .arguments import Collections, OfCollections
from .sources.chunks import Piece
from .sources.messages import gather_messages
from .stages.reports import ACCOUNTING, COLUMNS, REJECTED, admit_reports

_BYTES = Optional[bytes]  # noqa: UP045 - Beam reads this
# What Create says of elements with a time; Beam unwraps them.
_STAMPED = TimestampedValue
_MESSAGE = typehints.normalize(bytes | PubsubMessage | tuple[Any, _BYTES] | Piece | _STAMPED)
_PAIR_WITH_TEXT = typehints.normalize(tuple[Any, str])
_DECODE = "decode base64 text in front, as with base64.b64decode"
_DICTIONARY = typehints.normalize(dict[Any, Any])


class Admitted(NamedTuple):
    """The outputs of stage 1, which :class:`~ldpbeam.transforms.CountSupport` takes.

    Attributes:
        admitted: reports as columns, by (digest, epoch).
        rejected: :class:`~ldpbeam.transforms.RejectedRow` of the rejected records.
        entries: of the accounting, ((digest, epoch), what) and a number: records that were read, and of these
            the late and the rejected ones.
    """

    admitted: Any
    rejected: Any
    entries: Any


class AdmitReports(OfCollections):
    """Judges messages of devices; no message raises an error.

    Takes ``bytes``, ``PubsubMessage``, pairs of a key and ``bytes``, rows or dictionaries with ``field``, or
    the output of :class:`~ldpbeam.transforms.ReadReports`. Windows and triggers of the input have no effect.
    """

    def __init__(
        self,
        collections: Collections,
        *,
        source: str = "messages",
        field: str = "",
        arrival: bool = True,
    ) -> None:
        """Say to which collections reports may belong.

        Args:
            collections: a collection, the path of its file or its definition, or several.
            source: name of the origin of messages in rejected rows.
            field: name of the field of a row that holds the message; empty where elements are messages.
            arrival: whether an element's timestamp says when its message arrived. An element without one,
                whose timestamp is Beam's earliest, has an unknown arrival: it is neither late nor from the
                future.

        Raises:
            CollectionError, UsageError, TypeError: no collections, or unsound ones.
        """
        super().__init__(collections)
        self._source, self._field, self._arrival = source, field, arrival

    def expand(self, messages: Any) -> Any:
        refuse_other_elements(type(self).__name__, messages.element_type, self._field)
        if _is_pieces(messages.element_type):
            if not messages.windowing.is_default():
                messages = messages | "Unwindowed" >> beam.WindowInto(GlobalWindows())
            pieces = messages
        else:
            pieces = messages | "Gather" >> gather_messages(
                self._source, field=self._field, arrival=self._arrival
            )
        judged = pieces | "Judge" >> admit_reports(self.collections)
        return Admitted(judged[COLUMNS], judged[REJECTED], judged[ACCOUNTING])


def refuse_other_elements(name: str, kind: Any, field: str) -> None:
    """Look at the type of elements, which Beam knows when a pipeline is built; ``name`` is the
    transform's."""
    if not field:
        if not typehints.is_consistent_with(kind, _MESSAGE):
            text = any(typehints.is_consistent_with(kind, one) for one in (str, _PAIR_WITH_TEXT))
            remedy = _DECODE if text else "for rows name the field that holds the message: field='payload'"
            raise TypeError(
                f"{name} takes bytes, PubsubMessage, (key, bytes) or what ReadReports gives, not "
                f"{_shown(kind)}; {remedy}"
            )
        return
    if any(typehints.is_consistent_with(kind, one) for one in (_DICTIONARY, _STAMPED)):
        return
    try:
        fields = dict(named_fields_from_element_type(kind))
    except TypeError:
        raise TypeError(f"{name}: field={field!r} is for rows, and the elements are {_shown(kind)}") from None
    if field not in fields:
        raise TypeError(f"{name}: the rows have no field {field!r}; they have {', '.join(fields)}")
    if not typehints.is_consistent_with(fields[field], typehints.normalize(_BYTES)):
        remedy = _DECODE if typehints.is_consistent_with(fields[field], str) else "name a field of bytes"
        raise TypeError(f"{name}: the field {field!r} holds {_shown(fields[field])} and not bytes; {remedy}")


def _is_pieces(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Piece)


def _shown(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
