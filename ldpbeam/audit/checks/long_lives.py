"""Long lives: devices that report about one value all the time, or about every value once.

Each epoch is looked at on its own, since a mistake in few of them is lost in the mean of all; so are the
permanent answers, at both ends of a life and in between, and payloads that come again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

from ldpbeam.audit.checks.evidence import cell_probability, lasting
from ldpbeam.audit.checks.held_values import own_events
from ldpbeam.audit.checks.outcome import Check, Evidence, Match
from ldpbeam.audit.checks.replay import looked_at, replays
from ldpbeam.audit.client.clients import Client, ClientHistory
from ldpbeam.audit.client.draws import ReportLog, Subject, all_cells
from ldpbeam.audit.law.blocks import Blocks, ModelView, sized, views_of
from ldpbeam.audit.law.pairs import model_of, pair_with
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.history_model import Model

_BATCH = 64

_TURNS = 24
"""Reports about either value of the pair, at the beginning of a life with a changing value."""

_JUMP = 300 * 86400
"""Seconds that devices with a changing value are silent at most: some clients refuse to report after more."""


def still_lives(subject: Subject) -> Evidence:
    """Devices that hold the second value of the pair in every epoch of a long life."""
    client, collection, model, plan, read = subject
    devices, epochs = plan.swept[0], range(min(plan.swept[1], collection.epochs.count))
    value = model.pair[1]
    looked = list(looked_at(collection.protocol, model, value))
    memos = [one for view in views_of(model) for one in _memo_blocks(view, (1,), devices, len(epochs) // 2)]
    seen = [Counter[tuple[int, int]]() for _ in epochs]
    keys: list[list[list[Hashable]]] = [[] for _ in looked]
    bits: list[list[list[bool]]] = [[] for _ in memos]
    changed = lived = 0
    for responses in _lives(client, [ClientHistory([value] * len(epochs), epochs)] * devices, read):
        for epoch, response in zip(epochs, responses, strict=True):
            if response is not None:
                seen[epoch][model.place(response)] += 1
        known = [response for response in responses if response is not None]
        if len(known) < len(epochs):
            continue
        lived += 1
        changed += len({model.for_life(response) for response in known}) > 1
        for rows, one in zip(keys, looked, strict=True):
            rows.append([one.key(response) for response in known])
        for some, blocks in zip(bits, memos, strict=True):
            own = blocks.bits(known)
            if own is not None:
                some.append(own)
    evidence = Evidence(
        matches=[*_epochs(model, seen), *_memo_matches(memos, bits)],
        rules=[lasting(changed, lived, " for long")],
    )
    for one, rows in zip(looked, keys, strict=True):
        evidence += replays(one, rows)
    return evidence


def _lives(client: Client, asked: Sequence[ClientHistory], read: ReportLog) -> Iterator[list[Any]]:
    """Responses of each device; None in place of one that is none."""
    for start in range(0, len(asked), _BATCH):
        some = asked[start : start + _BATCH]
        for history, messages in zip(some, client.reports(some), strict=True):
            readings = [
                read.response(message, e) for message, e in zip(messages, history.epochs, strict=True)
            ]
            yield [None if one is None else one[0] for one in readings]


def _epochs(model: Model, seen: Sequence[Counter[tuple[int, int]]]) -> Iterator[Match]:
    cells = list(all_cells(model, 1))
    chances = [cell_probability(model, (1,), cell) for cell in cells]
    for epoch, counts in enumerate(seen):
        for (stratum, (symbol,)), p in zip(cells, chances, strict=True):
            what = f"epoch {epoch}, second value, symbol {symbol}"
            yield Match(Check.EPOCHS, what, counts[stratum, symbol], sum(counts.values()), p)


def _memo_blocks(view: ModelView, values: Sequence[int], devices: int, most: int) -> list[Blocks]:
    if not any(stratum.memoised for stratum in view.strata) or not most:
        return []
    return sized(view, values, devices, most, memoised=True)


def _memo_matches(memos: Sequence[Blocks], bits: Sequence[Sequence[Sequence[bool]]]) -> Iterator[Match]:
    for blocks, rows in zip(memos, bits, strict=True):
        p, size = Fraction(blocks.probability), blocks.size
        number = len(rows[0]) if rows else 0
        for later in range(1, number):
            for earlier in sorted({0, later - 1}):
                what = (
                    f"{blocks.view.name}second value, reports {earlier * size} .. "
                    f"{(earlier + 1) * size - 1} and {later * size} .. {(later + 1) * size - 1} show one "
                    "permanent answer"
                )
                equal = sum(row[earlier] == row[later] for row in rows)
                yield Match(Check.MEMO, what, equal, len(rows), p)


def every_memo(subject: Subject, held: Sequence[Any]) -> Evidence:
    """Devices that hold one value, each of ``held`` in turn, for two blocks of reports: its answer stays."""
    client, collection, _, plan, read = subject
    protocol, devices = collection.protocol, plan.remembering
    if not devices or not model_of(protocol).memoised:
        return Evidence()
    matches, changed, lived = [], 0, 0
    for value in held:
        model = model_of(protocol, pair_with(protocol, value))
        most = min(plan.swept[1], collection.epochs.count) // 2
        memos = [one for view in views_of(model) for one in _memo_blocks(view, (1,), devices, most)]
        epochs = range(2 * max((blocks.size for blocks in memos), default=1))
        looked, agreed, ones = Counter[int](), Counter[int](), Counter[int]()
        for responses in _lives(client, [ClientHistory([value] * len(epochs), epochs)] * devices, read):
            if None in responses:
                continue
            lived += 1
            changed += len({model.for_life(response) for response in responses}) > 1
            for number, blocks in enumerate(memos):
                bits = blocks.bits(responses[: 2 * blocks.size])
                if bits is not None:
                    looked[number] += 1
                    agreed[number] += bits[0] == bits[1]
                    ones[number] += bits[0]
        for number, blocks in enumerate(memos):
            what = f"{blocks.view.name}value {value}, a device shows one permanent answer in all its reports"
            p = Fraction(blocks.probability)
            matches.append(Match(Check.MEMO, what, agreed[number], looked[number], p))
            # Answers that are drawn for every report are averaged within a block: then blocks agree well.
            what = (
                f"{blocks.view.name}value {value}, the first reports of a device show an answer of one kind"
            )
            matches.append(Match(Check.MEMO, what, ones[number], looked[number], Fraction(blocks.ones)))
    return Evidence(matches=matches, rules=[lasting(changed, lived, " for long")])


def changing_lives(subject: Subject, held: Sequence[Any]) -> Evidence:
    """Devices that go back and forth in the pair, then hold every other value once, and then as at first."""
    client, collection, model, plan, read = subject
    if not model.memoised or not plan.changing:
        return Evidence()
    count, devices = collection.epochs.count, plan.changing
    others = [value for value in held if value not in model.pair][: count // 3]
    views = list(views_of(model))
    most = max(1, (count - len(others)) // 4)
    pairs = [sized(view, (0, 1), devices, min(most, plan.swept[1] // 2), memoised=True) for view in views]
    size = max(blocks[0].size for blocks in pairs)
    # In turns for long enough to see what happens to one report of many, where a block is short.
    turns = max(size, min(_TURNS, most))
    if 2 * (turns + size) + len(others) > count:
        return Evidence()
    head = range(2 * turns + len(others))
    last = min(count, len(head) + 2 * size + _JUMP // collection.epochs.length)
    epochs = [*head, *range(last - 2 * size, last)]
    asked = []
    for number in range(devices):
        turned = [*others[number % max(1, len(others)) :], *others[: number % max(1, len(others))]]
        values = [*[*model.pair] * turns, *turned, *[*model.pair] * size]
        asked.append(ClientHistory(values, epochs))
    seen = _Changing(collection.protocol, model, pairs, (turns, size))
    for history, responses in zip(asked, _lives(client, asked, read), strict=True):
        seen.add(history, responses)
    return Evidence(matches=list(seen.matches()), rules=[lasting(seen.changed, seen.lived, " for long")])


class _Changing:
    def __init__(
        self,
        protocol: LocalProtocol[Any],
        model: Model,
        pairs: Sequence[Sequence[Blocks]],
        sizes: tuple[int, int],
    ) -> None:
        """``sizes`` are reports about either value of the pair, at first and at last."""
        self._protocol, self._model = protocol, model
        self._turns, self._size = sizes
        self._blocks = list(chain.from_iterable(pairs))
        self._agreed: Counter[int] = Counter()
        self._looked: Counter[int] = Counter()
        self._own: Counter[tuple[Any, int]] = Counter()
        self._held: Counter[tuple[Any, int]] = Counter()
        self._same: Counter[int] = Counter()
        self._chances: dict[tuple[Any, int], Fraction] = {}
        self.changed = self.lived = 0

    def add(self, history: ClientHistory, responses: Sequence[Any]) -> None:
        if any(response is None for response in responses):
            return
        turns, size, model = self._turns, self._size, self._model
        self.lived += 1
        self.changed += len({model.for_life(response) for response in responses}) > 1
        for number, blocks in enumerate(self._blocks):
            first = responses[blocks.value : 2 * turns : 2][: blocks.size]
            last = responses[-2 * size :][blocks.value :: 2][-blocks.size :]
            bits = blocks.bits([*first, *last])
            if bits is not None:
                self._looked[number] += 1
                self._agreed[number] += bits[0] == bits[1]
        places = [model.place(response) for response in responses[: 2 * turns]]
        for i in range(1, len(places)):
            self._same[i] += places[i] == places[i - 1]
        middle = slice(2 * turns, len(responses) - 2 * size)
        for value, response in zip(history.values[middle], responses[middle], strict=True):
            for index, holds, p in own_events(self._protocol, value, response):
                self._held[value, index] += 1
                self._own[value, index] += holds
                self._chances[value, index] = p

    def matches(self) -> Iterator[Match]:
        for number, blocks in enumerate(self._blocks):
            what = (
                f"{blocks.view.name}{('first', 'second')[blocks.value]} value, a device shows one permanent "
                "answer before it held the other values and after"
            )
            p = Fraction(blocks.probability)
            yield Match(Check.MEMO, what, self._agreed[number], self._looked[number], p)
        cells = [cell for cell in all_cells(self._model, 2) if cell[1][0] == cell[1][1]]
        for number, pattern in enumerate(((0, 1), (1, 0))):
            p = sum((cell_probability(self._model, pattern, cell) for cell in cells), Fraction(0))
            for i in range(1 + number, 2 * self._turns, 2):
                what = f"values in turn, report {i} is the same as the one before"
                yield Match(Check.REPLAY, what, self._same[i], self.lived, p)
        for key in sorted(self._held):
            value, index = key
            what = f"held for a while by a device with other values before, value {value}"
            where = f"attribute {index}, " if isinstance(value, tuple) else ""
            yield Match(Check.SUPPORT, where + what, self._own[key], self._held[key], self._chances[key])
