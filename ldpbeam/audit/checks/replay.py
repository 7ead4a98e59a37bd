"""Payloads that come again: how often two reports of a device about one value say the same.

A report that is a copy of an earlier one under a new id shows that both are one device's, and is noise that
is used twice. The probability that two honest reports are equal follows from the permanent answer; over the
kinds of answers it is a mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from math import comb, exp, lgamma, log
from typing import Any, NamedTuple

from ldpbeam.audit.checks.outcome import Check, Match, Sum
from ldpbeam.audit.law.blocks import View, views_of
from ldpbeam.audit.law.model import Model
from ldpbeam.hashing import LinearFamily
from ldpbeam.protocols.attributes.sample import Sample
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.direct import Direct
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.unary import Unary

LAGS = (1, 2, 3, 4)
"""Reports that a copy may be behind its original; copies of the first report are looked at too."""

_PARTS = 8

Kinds = tuple[tuple[float, float], ...]
"""Of devices: how probable each kind is, and P(two of its reports are equal)."""


class Looked(NamedTuple):
    """What of a response is compared.

    Attributes:
        name: for people.
        key: of a response.
        kinds: of devices.
    """

    name: str
    key: Callable[[Any], Hashable]
    kinds: Kinds


def looked_at(protocol: LocalProtocol[Any], model: Model, value: Any) -> Iterator[Looked]:
    """Whole responses of each attribute where their law is known here, else their symbols in the model.

    Args:
        protocol: of the collection.
        model: of it.
        value: the second of the audited pair, which the device always holds.
    """
    parts = protocol.parts[:_PARTS]
    own = value if len(protocol.parts) > 1 else (value,)
    laws = [_equal_responses(part, one) for part, one in zip(parts, own, strict=False)]
    known = [law for law in laws if law is not None]
    if len(known) < len(protocol.parts):
        yield from (Looked(view.name, view.place, _equal_symbols(view)) for view in views_of(model))
    if isinstance(protocol, Sample):
        if len(known) == len(protocol.parts):
            share = 1 / len(known)
            yield Looked("", _all_said, tuple((share * p, e) for law in known for p, e in law))
        return
    for index, law in enumerate(laws):
        if law is not None:
            name = f"attribute {index}, " if len(protocol.parts) > 1 else ""
            yield Looked(name, _said(protocol, index), law)


def _all_said(response: Any) -> Hashable:
    found: Hashable = response
    return found


def _said(protocol: LocalProtocol[Any], index: int) -> Callable[[Any], Hashable]:
    return lambda response: protocol.said_about(response)[index]


def _same_symbol(channel: Any) -> Fraction:
    """P(two outputs for one input are equal); the same for every input."""
    found: Fraction = channel.own**2 + (channel.size - 1) * channel.other**2
    return found


def _same_bit(one: Fraction) -> Fraction:
    return one**2 + (1 - one) ** 2


def _equal_responses(part: LocalProtocol[Any], value: Any) -> Kinds | None:
    if isinstance(part, Direct):
        return ((1.0, float(_same_symbol(part.instant))),)
    if isinstance(part, LocalHash):
        same = _same_symbol(part.instant)
        if part.permanent is None:
            family = part.family
            same /= family.points - 1 if isinstance(family, LinearFamily) else 1 << 128
        return ((1.0, float(same)),)
    if isinstance(part, Unary):
        if part.permanent is None:
            return ((1.0, _power(part.instant.own, 1) * _power(part.instant.other, part.domain_size - 1)),)
        return _by_ones(part)
    if isinstance(part, BitFlip):
        return _equal_bits(part)
    return None


def _power(one: Fraction, bits: int) -> float:
    return exp(bits * log(_same_bit(one)))


def _by_ones(part: Unary) -> Kinds:
    """By the number of ones in the permanent answer."""
    permanent, instant, others = part.permanent, part.instant, part.domain_size - 1
    assert permanent is not None  # noqa: S101 - the caller's condition
    kinds = []
    q = float(permanent.other)
    for ones in range(others + 1):
        choices = lgamma(others + 1) - lgamma(ones + 1) - lgamma(others - ones + 1)
        chance = exp(choices + ones * log(q) + (others - ones) * log(1 - q))
        for own, p in ((1, float(permanent.own)), (0, 1 - float(permanent.own))):
            equal = _power(instant.own, ones + own) * _power(instant.other, others + 1 - ones - own)
            kinds.append((chance * p, equal))
    return tuple(kinds)


def _equal_bits(part: BitFlip) -> Kinds | None:
    if part.permanent is not None:
        # Without a second round reports about one value are all the same.
        return ((1.0, 1.0),) if part.instant is None else None
    b, d = part.domain_size, part.d
    channel = part.instant
    assert channel is not None  # noqa: S101 - every protocol has a round
    own, other = _same_bit(channel.own), _same_bit(channel.other)
    equal = Fraction(d, b) * own * other ** (d - 1) + Fraction(b - d, b) * other**d
    return ((1.0, float(equal / comb(b, d))),)


def _equal_symbols(view: View) -> Kinds:
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


def replays(looked: Looked, keys: Sequence[Sequence[Hashable]]) -> tuple[list[Match], list[Sum]]:
    """Tests for each report of a life, over devices, and for all reports at once.

    Args:
        looked: what is compared.
        keys: for each device, that of each of its reports; all about one value, and equally many.
    """
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
            sums.append(Sum(Check.REPLAY, text, count, len(keys), len(chosen), looked.kinds))
    return matches, sums
