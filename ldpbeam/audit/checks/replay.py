"""Payloads that come again: how often two reports of a device about one value say the same.

A report that is a copy of an earlier one under a new id shows that both are one device's, and is noise that
is used twice. The probability that two honest reports are equal follows from the permanent answer; over the
kinds of answers it is a mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from ldpbeam.audit.checks.outcome import Check, EventSum, Evidence, Match
from ldpbeam.audit.law.blocks import ModelView, views_of
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.history_model import Model
from ldpbeam.protocols.law import Kinds

LAGS = (1, 2, 3, 4)
"""Reports that a copy may be behind its original; copies of the first report are looked at too."""

_PARTS = 8


class Looked(NamedTuple):
    """What of a response is compared."""

    name: str
    key: Callable[[Any], Hashable]
    kinds: Kinds


def looked_at(protocol: LocalProtocol[Any], model: Model, value: Any) -> Iterator[Looked]:
    """Whole responses of each attribute where their law is known here, else their symbols in the model."""
    parts = protocol.parts[:_PARTS]
    own = value if protocol.SEVERAL else (value,)
    laws = [part.law.equal_responses(one) for part, one in zip(parts, own, strict=False)]
    known = [law for law in laws if law is not None]
    if len(known) < len(protocol.parts):
        yield from (Looked(view.name, view.place, _equal_symbols(view)) for view in views_of(model))
    if protocol.share < 1:
        whole = protocol.law.equal_responses(value)
        if whole is not None:
            yield Looked("", _whole_response, whole)
        return
    for index, law in enumerate(laws):
        if law is not None:
            name = f"attribute {index}, " if protocol.SEVERAL else ""
            yield Looked(name, _response_about(protocol, index), law)


def _whole_response(response: Any) -> Hashable:
    same: Hashable = response
    return same


def _response_about(protocol: LocalProtocol[Any], index: int) -> Callable[[Any], Hashable]:
    return lambda response: protocol.device.responses_by_attribute(response)[index]


def _equal_symbols(view: ModelView) -> Kinds:
    kinds = []
    for stratum in view.strata:
        share = float(stratum.probability)
        row = stratum.answers[1]
        if not stratum.memoised:
            kinds.append((share, float(sum((p * p for p in row), Fraction(0)))))
        elif stratum.instant is None:
            kinds.append((share, 1.0))
        else:
            for chance, second in zip(row, stratum.instant, strict=True):
                kinds.append((share * float(chance), float(sum((p * p for p in second), Fraction(0)))))
    return tuple(kinds)


def replays(looked: Looked, keys: Sequence[Sequence[Hashable]]) -> Evidence:
    """Tests for each report of a life, over devices, and for all reports at once."""
    length = len(keys[0]) if keys else 0
    mean = Fraction(min(1.0, sum(p * e for p, e in looked.kinds)))
    matches, sums = [], []
    equal = {lag: [sum(row[i] == row[i - lag] for row in keys) for i in range(lag, length)] for lag in LAGS}
    first = [sum(row[i] == row[0] for row in keys) for i in range(1, length)]
    named = [(f"the one {lag} before", lag, counts) for lag, counts in equal.items()]
    for what, start, counts in [*named, ("the first one", 1, first)]:
        for i, count in enumerate(counts, start):
            text = f"{looked.name}report {i} is the same as {what}"
            matches.append(Match(Check.REPLAY, text, count, len(keys), mean))
    for lag, counts in equal.items():
        for offset in (0, lag):
            # Pairs without a report in common: they are independent, given the permanent answer.
            chosen = [i for i in range(length - lag) if i >= offset and (i - offset) % (2 * lag) < lag]
            count = sum(counts[i] for i in chosen)
            text = f"{looked.name}reports are the same as the one {lag} before, from {offset} on"
            sums.append(EventSum(Check.REPLAY, text, count, len(keys), len(chosen), looked.kinds))
    return Evidence(matches=matches, sums=sums)
