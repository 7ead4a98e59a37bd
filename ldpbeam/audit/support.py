"""Whether reports support values as often as estimators take it, and what is drawn without a look at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from ldpbeam.audit.clients import Client, History
from ldpbeam.audit.draws import MOST_RESPONSES, Read, epochs_for
from ldpbeam.audit.outcome import Check, Match
from ldpbeam.collection.collection import Collection
from ldpbeam.hashing import LinearFamily
from ldpbeam.protocols.attributes.bounded_counters import BoundedCounters
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.one_bit_mean import OneBit
from ldpbeam.protocols.results import FrequencyProtocol

_TARGETS = 16
"""Values of an attribute whose support is counted; both ends are among them."""

_HELD = 4
"""Held values besides the audited pair."""

_PARTS = 8
"""Attributes that are looked at."""

_BATCH = 512

Event = tuple[str, Callable[[Any], bool], Fraction]
"""What is seen, in which responses, and its probability."""


def spread(size: int, most: int) -> list[int]:
    """At most so many of 0 .. size − 1, evenly spread, with both ends."""
    if size <= most:
        return list(range(size))
    return sorted({round(i * (size - 1) / (most - 1)) for i in range(most)})


def held_values(protocol: LocalProtocol[Any]) -> list[Any]:
    """Values between the ends: for several attributes, all of them at once."""
    if isinstance(protocol, BoundedCounters):
        share = protocol.sum_limit // len(protocol.parts)
        return [tuple(share for _ in protocol.parts)] if share else []
    inside = [spread(part.domain_size, _HELD + 2)[1:-1] for part in protocol.parts]
    longest = max(map(len, inside))
    rows = [[some[i % len(some)] if some else 0 for some in inside] for i in range(longest)]
    return [tuple(row) if len(row) > 1 else row[0] for row in rows]


def support_counts(
    client: Client, collection: Collection, values: Sequence[Any], draws: int, read: Read
) -> list[tuple[Any, Counter[Any]]]:
    """Responses of new devices, one report each, about each of the values."""
    found = []
    draws = min(draws, MOST_RESPONSES)
    for value in values:
        seen: Counter[Any] = Counter()
        for start in range(0, draws, _BATCH):
            numbers = range(start, min(start + _BATCH, draws))
            asked = [History([value], epochs_for(i, 1, collection.epochs.count)) for i in numbers]
            for history, (message,) in zip(asked, client.reports(asked), strict=True):
                known = read.response(message, history.epochs[0])
                if known is not None:
                    seen[known[0]] += 1
        found.append((value, seen))
    return found


def support_matches(
    protocol: LocalProtocol[Any], seen: Sequence[tuple[Any, Counter[Any]]]
) -> Iterator[Match]:
    """A test for each held value, attribute and event."""
    parts = protocol.parts
    for number, (held, responses) in enumerate(seen):
        mine = held if len(parts) > 1 else (held,)
        for index, part in enumerate(parts[:_PARTS]):
            said: Counter[Any] = Counter()
            for response, times in responses.items():
                about = protocol.said_about(response)
                if index in about:
                    said[about[index]] += times
            trials = sum(said.values())
            for what, holds, probability in (*_events(part, mine[index]), *_drawn_without_the_value(part)):
                count = sum(times for response, times in said.items() if holds(response))
                where = f"attribute {index}, " if len(parts) > 1 else ""
                yield Match(Check.SUPPORT, f"{where}held value {number}, {what}", count, trials, probability)


def _events(part: LocalProtocol[Any], held: int) -> Iterator[Event]:
    if isinstance(part, FrequencyProtocol):
        found = part.support
        for value in spread(part.domain_size, _TARGETS):
            p = found.sampled * (found.own if value == held else found.other)
            yield f"value {value} is supported", _supports(part, value), p
    elif isinstance(part, OneBit):
        yield "the bit is 1", bool, part.likelihood(1, held)


def _drawn_without_the_value(part: LocalProtocol[Any]) -> Iterator[Event]:
    """Of a hash function, its share of all; of sampled buckets, each."""
    if isinstance(part, LocalHash):
        family = part.family
        if isinstance(family, LinearFamily):
            functions = family.points - 1
            shares = min(_TARGETS, functions)
            for i in range(shares):
                # Ranges of seeds that differ in size by one at most.
                low, high = 1 + i * functions // shares, 1 + (i + 1) * functions // shares
                p = Fraction(high - low, functions)
                yield f"function {low} .. {high - 1}", _between(low, high), p
        else:
            for word in (0, 64):
                for i in range(8):
                    text = f"bits {word + 61} .. {word + 63} of the function are {i}"
                    yield text, _of_seed(word + 61, i), Fraction(1, 8)
    elif isinstance(part, BitFlip) and part.d < part.domain_size:
        for bucket in spread(part.domain_size, _TARGETS):
            yield f"bucket {bucket} is sampled", _samples(bucket), part.support.sampled


def _between(low: int, high: int) -> Callable[[Any], bool]:
    return lambda response: low <= response.seed < high


def _of_seed(shift: int, number: int) -> Callable[[Any], bool]:
    return lambda response: response.seed >> shift & 7 == number


def _samples(bucket: int) -> Callable[[Any], bool]:
    return lambda response: bucket in response.indices


def _supports(part: FrequencyProtocol[Any], value: int) -> Callable[[Any], bool]:
    return lambda response: part.supports(response, value)
