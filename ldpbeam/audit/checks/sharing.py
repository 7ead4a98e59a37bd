"""Devices that report to two collections: neither shares its answers, noise or functions with the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ldpbeam.audit.checks.evidence import equal_probability
from ldpbeam.audit.checks.held import spread
from ldpbeam.audit.checks.outcome import Check, Match
from ldpbeam.audit.client.clients import Client, History
from ldpbeam.audit.client.draws import Plan, Read
from ldpbeam.audit.law.blocks import Blocks, Decision, decide, sized, views_of
from ldpbeam.collection.collection import Collection
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.history_model import Model
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.unary import Unary

_BATCH = 64

_BUCKETS = 256
"""Bits of a vector that are compared one by one; of more, so many that are evenly spread."""

_MOST = 40
"""Reports of a device for either collection, at most."""


def across_collections(
    client: Client, collection: Collection, model: Model, plan: Plan, read: Read
) -> list[Match] | None:
    """Blocks of a device's reports for two collections; None where the client serves one only."""
    other = replace(collection, name=f"{collection.name[:90]}.other")
    values = (0, 1)
    most = min(_MOST, collection.epochs.count)
    views = [] if not model.memoised else list(views_of(model))
    pairs = [sized(view, values, plan.pairs // 2, most, memoised=False) for view in views]
    if not model.memoised:
        pairs = [[Blocks(view, value, 1, memoised=False) for value in values] for view in views_of(model)]
    size = max(blocks[0].size for blocks in pairs)
    seen = _Shared(collection, model, pairs, size)
    others = Read(other)
    for start in range(0, plan.pairs, _BATCH):
        held = [number // 2 % 2 for number in range(start, min(start + _BATCH, plan.pairs))]
        asked = [History([model.pair[value]] * size, range(size)) for value in held]
        reports = client.for_two(other, asked)
        if reports is None:
            return None
        for value, (first, second) in zip(held, reports, strict=True):
            mine = [read.response(message, epoch) for epoch, message in enumerate(first)]
            yours = [others.response(message, epoch) for epoch, message in enumerate(second)]
            known, also = ([one[0] for one in some if one is not None] for some in (mine, yours))
            if len(known) == len(also) == size:
                seen.add(value, known, also)
    read.ids += others.ids
    return list(seen.matches())


class _Shared:
    """What devices said to either collection."""

    def __init__(
        self, collection: Collection, model: Model, pairs: Sequence[Sequence[Blocks]], size: int
    ) -> None:
        self._model, self._pairs, self._size = model, pairs, size
        self._single = collection.protocol
        self._bits = _bit_rules(self._single, size)
        # By test: devices, and those whose blocks agree.
        self._devices: Counter[str] = Counter()
        self._equal: Counter[str] = Counter()
        self._chance: dict[str, Fraction] = {}

    def _count(self, what: str, equal: bool, p: Fraction) -> None:
        self._devices[what] += 1
        self._equal[what] += equal
        self._chance[what] = p

    def add(self, value: int, first: Sequence[Any], second: Sequence[Any]) -> None:
        """A device that held one of the pair throughout."""
        model, whose = self._model, f"{('first', 'second')[value]} value: "
        same = model.place(first[0]) == model.place(second[0])
        self._count(whose + "first reports are the same", same, equal_probability(model, (value,)))
        if model.same_for_life < 1:
            same = model.for_life(first[0]) == model.for_life(second[0])
            self._count("what is drawn for life is the same", same, model.same_for_life)
        for pair in self._pairs:
            blocks = pair[value]
            bits = [_bit(blocks, some) for some in (first, second)]
            if None not in bits:
                p = Fraction(blocks.probability)
                self._count(f"{whose}{blocks.view.name}permanent answers agree", bits[0] == bits[1], p)
        self._one_hash(model.pair[value], first, second)
        self._each_bit(model.pair[value], first, second)

    def _one_hash(self, held: Any, first: Sequence[Any], second: Sequence[Any]) -> None:
        """Where the functions of both collections give the value one hash, they ask for one answer."""
        protocol = self._single
        if not isinstance(protocol, LocalHash) or protocol.permanent is None:
            return
        one, two = (protocol.family.hash(some[0].seed, held) for some in (first, second))
        if one == two:
            answers = protocol.permanent.own, 1 - protocol.permanent.own
            own, other = protocol.instant.own, protocol.instant.other
            rates = ((float(own), 1 - float(own)), (float(other), 1 - float(other)))
            rule = decide(tuple(float(p) for p in answers), rates, self._size, memoised=False)
            bits = [rule([int(response.symbol != one) for response in some]) for some in (first, second)]
            self._count("answers to one hash agree", bits[0] == bits[1], Fraction(rule.apart))

    def _each_bit(self, held: Any, first: Sequence[Any], second: Sequence[Any]) -> None:
        """Bits of every bucket, and of one bucket that both collections ask about, whichever it is."""
        some_bucket = False
        for bucket, rules in self._bits.items():
            symbols = [[_has(response, bucket) for response in some] for some in (first, second)]
            if None in symbols[0] or None in symbols[1]:
                continue
            rule = rules[bucket == held]
            bits = [rule([one for one in some if one is not None]) for some in symbols]
            whose = "held" if bucket == held else "not held"
            equal, p = bits[0] == bits[1], Fraction(rule.apart)
            self._count(f"bits of bucket {bucket}, {whose}, agree", equal, p)
            if bucket != held and not some_bucket:
                some_bucket = True
                self._count("bits of a bucket that is not held agree", equal, p)

    def matches(self) -> Iterator[Match]:
        """A test for each event."""
        for key in sorted(self._devices):
            what = f"one device, two collections, {key}"
            yield Match(Check.COLLECTIONS, what, self._equal[key], self._devices[key], self._chance[key])


def _bit(blocks: Blocks, responses: Sequence[Any]) -> bool | None:
    places = [blocks.view.place(response) for response in responses[: blocks.size]]
    if len({stratum for stratum, _ in places}) > 1:
        return None
    return blocks.bit(places[0][0], [symbol for _, symbol in places])


def _bit_rules(protocol: Any, size: int) -> dict[int, tuple[Decision, Decision]]:
    """For each bit of a vector: the rule where the device holds another value, and where it holds it."""
    if not isinstance(protocol, (Unary, BitFlip)):
        return {}
    permanent, instant = protocol.permanent, protocol.instant
    first = permanent or instant
    assert first is not None  # noqa: S101 - every protocol has a round
    rates: tuple[tuple[float, ...], ...] = ((0.0, 1.0), (1.0, 0.0))
    if permanent is not None and instant is not None:
        rates = tuple((1 - float(p), float(p)) for p in (instant.own, instant.other))
    size = size if permanent is not None else 1
    other, own = (
        decide((float(p), 1 - float(p)), rates, size, memoised=False) for p in (first.other, first.own)
    )
    return dict.fromkeys(spread(protocol.domain_size, _BUCKETS), (other, own))


def _has(response: Any, bucket: int) -> int | None:
    """The bit of a bucket; None where a report has none."""
    if isinstance(response, int):
        return response >> bucket & 1
    asked = response.indices
    return int(response.bits >> asked.index(bucket) & 1) if bucket in asked else None
