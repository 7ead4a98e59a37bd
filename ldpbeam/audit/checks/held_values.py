"""Every value in turn is held by devices of its own: what their reports support, and what they draw.

So no value is treated otherwise than the others, and reports support values as often as estimators take it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ldpbeam.audit.checks.outcome import Check, Match
from ldpbeam.audit.client.clients import ClientHistory
from ldpbeam.audit.client.draws import Subject, epochs_for
from ldpbeam.audit.law.pairs import texts_of
from ldpbeam.protocols.contract import LocalProtocol, SupportProtocol
from ldpbeam.protocols.history_model import Model
from ldpbeam.protocols.law import Event, evenly_chosen
from ldpbeam.protocols.prefixes import Prefixes

_TARGETS = 16
"""Values of an attribute whose support is counted, besides the held one and its neighbours."""

MOST_HELD = 256
"""Values of an attribute that are held in turn; of more, so many that are evenly spread."""

_PARTS = 8
"""Attributes that are looked at."""

_BATCH = 512


def held_values(protocol: LocalProtocol[Any]) -> list[Any]:
    """Every value up to :data:`MOST_HELD`, in their order; of several attributes one of each at once."""
    parts = protocol.parts
    if isinstance(protocol, Prefixes):
        return list(texts_of(protocol.strings))
    most = protocol.device.sum_limit
    if most is not None:
        # The counters of a device share one limit: where one is large the others are 0.
        share = most // len(parts)
        alone = [
            tuple(value if i == index else 0 for i in range(len(parts)))
            for index in range(min(len(parts), _PARTS))
            for value in evenly_chosen(
                min(most, parts[index].domain_size - 1) + 1, MOST_HELD // len(parts) + 2
            )[1:]
        ]
        return list(dict.fromkeys([tuple(0 for _ in parts), tuple(share for _ in parts), *alone]))
    columns = [evenly_chosen(part.domain_size, MOST_HELD) for part in parts]
    if not protocol.SEVERAL:
        return list(columns[0])
    longest = max(map(len, columns))
    return [tuple(column[i % len(column)] for column in columns) for i in range(longest)]


@dataclass
class ValueReports:
    """Reports about one value, each of another device."""

    value: Any
    responses: Counter[Any] = field(default_factory=Counter)
    ids: list[int] = field(default_factory=list)


def read_held(subject: Subject, values: Sequence[Any]) -> list[ValueReports]:
    """Reports of new devices, one each, about each of the values, which take turns."""
    client, read = subject.client, subject.read
    devices, count = subject.plan.held_each(len(values)), subject.collection.epochs.count
    groups = [ValueReports(value) for value in values]
    total = devices * len(values)
    for start in range(0, total, _BATCH):
        numbers = range(start, min(start + _BATCH, total))
        # The same epochs for all values.
        asked = [
            ClientHistory([values[i % len(values)]], epochs_for(i // len(values), 1, count)) for i in numbers
        ]
        for i, history, (message,) in zip(numbers, asked, client.reports(asked), strict=True):
            known = read.response(message, history.epochs[0])
            if known is not None:
                mine = groups[i % len(values)]
                mine.responses[known[0]] += 1
                mine.ids.append(known[1])
    return groups


def own_events(
    protocol: LocalProtocol[Any], value: Any, response: Any
) -> Iterator[tuple[int, bool, Fraction]]:
    """Whether a response speaks for the value that its device held, attribute by attribute."""
    mine = value if protocol.SEVERAL else (value,)
    for index, about in protocol.device.responses_by_attribute(response).items():
        if index < _PARTS:
            part, own = protocol.parts[index], mine[index]
            if isinstance(part, SupportProtocol):
                yield index, part.law.supports(about, own), part.supported(own, own)
            elif part.forgery.ends is not None:
                yield index, bool(about), part.law.likelihood(1, own)


def support_matches(
    protocol: LocalProtocol[Any], seen: Sequence[tuple[Any, Counter[Any]]]
) -> Iterator[Match]:
    """A test for each held value, attribute and event."""
    parts = protocol.parts
    for held, responses in seen:
        mine = held if protocol.SEVERAL else (held,)
        for index, part in enumerate(parts[:_PARTS]):
            counts: Counter[Any] = Counter()
            for response, times in responses.items():
                about = protocol.device.responses_by_attribute(response)
                if index in about:
                    counts[about[index]] += times
            trials = sum(counts.values())
            for what, holds, probability in (*_events(part, mine[index]), *part.law.drawn()):
                count = sum(times for response, times in counts.items() if holds(response))
                where = f"attribute {index}, " if protocol.SEVERAL else ""
                text = f"{where}value {held} held, {what}"
                yield Match(Check.SUPPORT, text, count, trials, probability)


def _events(part: LocalProtocol[Any], held: int) -> Iterator[Event]:
    if isinstance(part, SupportProtocol):
        near = {value for value in (held - 1, held, held + 1) if 0 <= value < part.domain_size}
        for value in sorted({*evenly_chosen(part.domain_size, _TARGETS), *near}):
            yield f"value {value} is supported", _supports(part, value), part.supported(value, held)
    elif part.forgery.ends is not None:
        yield "the bit is 1", bool, part.law.likelihood(1, held)
    else:
        model = part.law.model((held, held))
        for symbol, p in enumerate(
            model.strata[0].history((0,), (symbol,)) for symbol in range(model.strata[0].symbols)
        ):
            yield f"symbol {symbol}", _placed(model, symbol), p


def _placed(model: Model, symbol: int) -> Callable[[Any], bool]:
    return lambda response: model.place(response) == (0, symbol)


def _supports(part: SupportProtocol[Any], value: int) -> Callable[[Any], bool]:
    return lambda response: part.law.supports(response, value)
