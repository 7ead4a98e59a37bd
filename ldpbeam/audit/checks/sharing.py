"""Devices that report to two collections: neither shares its answers, noise or functions with the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ldpbeam.audit.checks.evidence import equal_probability
from ldpbeam.audit.checks.outcome import Check, Evidence, Match
from ldpbeam.audit.client.clients import ClientHistory
from ldpbeam.audit.client.draws import ReportLog, Subject
from ldpbeam.audit.law.blocks import Blocks, Decision, decide, sized, views_of
from ldpbeam.collection.collection import Collection
from ldpbeam.protocols.history_model import Model
from ldpbeam.protocols.law import Law, ShownAnswer

_BATCH = 64

_BUCKETS = 256
"""Bits of a vector that are compared one by one; of more, so many that are evenly spread."""

_MOST = 40
"""Reports of a device for either collection, at most."""


def across_collections(subject: Subject) -> Evidence | None:
    """Blocks of a device's reports for two collections; None where the client serves one only."""
    client, collection, model, plan, read = subject
    other = replace(collection, name=f"{collection.name[:90]}.other")
    values = (0, 1)
    most = min(_MOST, collection.epochs.count)
    views = [] if not model.memoised else list(views_of(model))
    pairs = [sized(view, values, plan.pairs // 2, most, memoised=False) for view in views]
    if not model.memoised:
        pairs = [[Blocks(view, value, 1, memoised=False) for value in values] for view in views_of(model)]
    size = max(blocks[0].size for blocks in pairs)
    seen = _Shared(collection, model, pairs, size)
    others = ReportLog(other)
    for start in range(0, plan.pairs, _BATCH):
        held = [number // 2 % 2 for number in range(start, min(start + _BATCH, plan.pairs))]
        asked = [ClientHistory([model.pair[value]] * size, range(size)) for value in held]
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
    return Evidence(matches=list(seen.matches()))


class _Shared:
    def __init__(
        self, collection: Collection, model: Model, pairs: Sequence[Sequence[Blocks]], size: int
    ) -> None:
        self._model, self._pairs, self._size = model, pairs, size
        self._rules = [_rules(collection.protocol.law, value, size) for value in model.pair]
        # By test: devices, and those whose blocks agree.
        self._devices: Counter[str] = Counter()
        self._equal: Counter[str] = Counter()
        self._chance: dict[str, Fraction] = {}

    def _count(self, what: str, equal: bool, p: Fraction) -> None:
        self._devices[what] += 1
        self._equal[what] += equal
        self._chance[what] = p

    def add(self, value: int, first: Sequence[Any], second: Sequence[Any]) -> None:
        model, whose = self._model, f"{('first', 'second')[value]} value: "
        same = model.place(first[0]) == model.place(second[0])
        self._count(whose + "first reports are the same", same, equal_probability(model, (value,)))
        if model.same_for_life < 1:
            same = model.for_life(first[0]) == model.for_life(second[0])
            self._count("what is drawn for life is the same", same, model.same_for_life)
        for pair in self._pairs:
            blocks = pair[value]
            bits = [blocks.bits(some[: blocks.size]) for some in (first, second)]
            if None not in bits:
                p = Fraction(blocks.probability)
                self._count(f"{whose}{blocks.view.name}permanent answers agree", bits[0] == bits[1], p)
        self._answers(value, first, second)

    def _answers(self, held: int, first: Sequence[Any], second: Sequence[Any]) -> None:
        """Answers that both collections show about one input; of buckets that are not held, one by itself."""
        some_bucket = False
        for answer, rule in self._rules[held]:
            symbols = [[answer.symbol(response) for response in some] for some in (first, second)]
            if None in symbols[0] or None in symbols[1] or answer.input(first[0]) != answer.input(second[0]):
                continue
            bits = [rule([symbol for symbol in some if symbol is not None]) for some in symbols]
            equal, p = bits[0] == bits[1], Fraction(rule.apart)
            self._count(f"{answer.name} agree", equal, p)
            if not answer.held and not some_bucket:
                some_bucket = True
                self._count("bits of a bucket that is not held agree", equal, p)

    def matches(self) -> Iterator[Match]:
        for key in sorted(self._devices):
            what = f"one device, two collections, {key}"
            yield Match(Check.COLLECTIONS, what, self._equal[key], self._devices[key], self._chance[key])


def _rules(law: Law[Any], held: Any, size: int) -> list[tuple[ShownAnswer, Decision]]:
    """The answers of a device that holds a value, each with the rule that reads it from ``size`` reports."""
    answers = law.shown_answers(held, _BUCKETS)
    return [(a, decide(a.chances, a.rates, size if a.memoised else 1, memoised=False)) for a in answers]
