"""Devices that report in a few of their epochs only: whole lives, in which a silent epoch is an output too.

Every device is asked in each of its T epochs. Which of them it answers is to be drawn from nothing but
chance: m of T, each set of that many as often as any other, whatever the device holds and whenever that
changes. Given its epochs, its reports have the law of as many reports of any device about the values that it
held in them; what it held in silent epochs must not show. So the claim for life has three parts, each with
its own tests: no life has more than m reports, silence follows from no value, and the first reports of a life
(up to three) show no more than the loss of so many.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb
from typing import Any

from ldpbeam.audit.checks.held_values import ValueReports
from ldpbeam.audit.checks.outcome import Check, Match, Rule
from ldpbeam.audit.client.clients import ClientHistory
from ldpbeam.audit.client.draws import HistoryCounts, Subject, count_histories, patterns_of
from ldpbeam.collection.participation import Participation
from ldpbeam.protocols.history_model import Pattern

_ASKED = 40
"""Times that devices are asked for each report that is to be drawn; it limits the lives where T is large."""

_ASKED_ABOUT_VALUES = 60
"""Times that devices which hold each value in turn are asked for each report that is to be drawn."""

_ABOUT_VALUE = 0.3
"""Lives about each value, for each report that is to be drawn."""

_LEAST = 200
"""Lives that are drawn whatever T is."""

_EPOCHS = 64
"""Epochs, the first ones and the last one, whose silence is counted."""

_REOPENED = 8
"""Lives in which a device is asked twice and opened again after every report."""

_BATCH = 256


@dataclass
class Lives:
    counts: HistoryCounts
    lives: int = 0
    other: int = 0
    held: Counter[tuple[int, int]] = field(default_factory=Counter)
    spoke: Counter[tuple[int, int]] = field(default_factory=Counter)
    both: dict[int, list[int]] = field(default_factory=lambda: {0: [0, 0], 1: [0, 0]})
    pairs: int = 0
    alike: int = 0
    rotating: list[ValueReports] = field(default_factory=list)
    turns: int = 0
    turned: Counter[tuple[int, int]] = field(default_factory=Counter)


def lives_of(participation: Participation, draws: int) -> int:
    """How many lives are drawn: enough reports about either value, as far as asking for them is possible."""
    wanted = -(-2 * draws // participation.reports)
    possible = _ASKED * draws // participation.of
    lives = max(_LEAST, min(wanted, possible))
    return lives + lives % 2


def turns_of(participation: Participation, draws: int, values: int) -> int:
    """How many lives there are about each value that is held in turn."""
    possible = int(_ASKED_ABOUT_VALUES * draws) // (participation.of * values)
    return max(1, min(int(_ABOUT_VALUE * draws), possible))


def read_lives(subject: Subject, life: Participation, values: Sequence[Any]) -> Lives:
    """Lives of new devices: of the pair, and of each value in turn."""
    lives = _pair_lives(subject, life)
    _rotating_lives(subject, life, values, lives)
    return lives


def _rotating_lives(subject: Subject, life: Participation, values: Sequence[Any], lives: Lives) -> None:
    client, read = subject.client, subject.read
    lives.rotating = [ValueReports(value) for value in values]
    lives.turns = turns_of(life, subject.plan.draws, len(values))
    total, seen_epochs = lives.turns * len(values), set(watched(life.of))
    for start in range(0, total, _BATCH):
        numbers = [number % len(values) for number in range(start, min(start + _BATCH, total))]
        asked = [ClientHistory([values[number]] * life.of, range(life.of)) for number in numbers]
        for number, messages in zip(numbers, client.reports(asked), strict=True):
            own = [epoch for epoch, message in enumerate(messages) if message is not None]
            lives.lives += 1
            lives.other += len(own) != life.reports
            held = lives.rotating[number]
            for place, epoch in enumerate(own):
                lives.turned[epoch, number] += epoch in seen_epochs
                known = read.response(messages[epoch], epoch)
                if known is not None:
                    held.ids.append(known[1])
                    if not place:
                        held.responses[known[0]] += 1


def _pair_lives(subject: Subject, life: Participation) -> Lives:
    """Lives of new devices: a third hold each value for good, a third one or the other in every epoch."""
    client, _, model, plan, read = subject
    patterns = patterns_of(model, life.reports)
    lives = Lives(HistoryCounts(patterns, {pattern: Counter() for pattern in patterns}))
    coins = random.Random(1)  # noqa: S311 - which values are asked about is no secret, and the same every time
    total, length = lives_of(life, plan.draws), len(patterns[0])
    seen_epochs = watched(life.of)
    for start in range(0, total, _BATCH):
        held = [_values(number, life.of, coins) for number in range(start, min(start + _BATCH, total))]
        asked = [ClientHistory([model.pair[value] for value in values], range(life.of)) for values in held]
        made: dict[Pattern, list[tuple[ClientHistory, list[bytes | None]]]] = {one: [] for one in patterns}
        before: tuple[int, ...] | None = None
        for number, (values, messages) in enumerate(zip(held, client.reports(asked), strict=True)):
            own = tuple(epoch for epoch, message in enumerate(messages) if message is not None)
            lives.lives += 1
            lives.other += len(own) != life.reports
            for epoch in seen_epochs:
                lives.held[epoch, values[epoch]] += 1
                lives.spoke[epoch, values[epoch]] += epoch in own
            if len(set(values)) == 1:
                lives.both[values[0]][0] += 1
                lives.both[values[0]][1] += {0, life.of - 1} <= set(own)
            if number % 2:
                lives.pairs += 1
                lives.alike += own == before
            before = own
            pattern = tuple(values[epoch] for epoch in own[:length])
            counted = length if pattern in made else 0
            if counted:
                history = ClientHistory([model.pair[value] for value in pattern], own[:length])
                made[pattern].append((history, [messages[epoch] for epoch in own[:length]]))
            # The others are read too: their bytes follow the same rules.
            for epoch in own[counted:]:
                read.response(messages[epoch], epoch)
        for pattern, histories in made.items():
            count_histories(lives.counts, pattern, model, read, histories)
    return lives


def watched(of: int) -> list[int]:
    return sorted({*range(min(of, _EPOCHS)), of - 1})


def _values(number: int, of: int, coins: random.Random) -> list[int]:
    if number // 2 % 3 < 2:  # neighbours hold the same
        return [number // 2 % 3] * of
    return [coins.getrandbits(1) for _ in range(of)]


def few_reports(lives: Lives, life: Participation) -> Rule:
    """No life has more reports than it may have, or fewer."""
    what = f"a device reports in {life.reports} of its {life.of} epochs"
    return Rule(Check.PARTICIPATION, what, lives.other, lives.lives)


def silence(lives: Lives, life: Participation) -> Iterator[Match]:
    for epoch in watched(life.of):
        for value, name in enumerate(("first", "second")):
            yield Match(
                Check.PARTICIPATION,
                f"epoch {epoch}, {name} value held, a device reports",
                lives.spoke[epoch, value],
                lives.held[epoch, value],
                life.share,
            )
        for number, held in enumerate(lives.rotating):
            what = f"epoch {epoch}, value {held.value} for life, a device reports"
            yield Match(Check.PARTICIPATION, what, lives.turned[epoch, number], lives.turns, life.share)
    if life.of > 1:
        together = Fraction(life.reports * (life.reports - 1), life.of * (life.of - 1))
        for value, name in enumerate(("first", "second")):
            total, count = lives.both[value]
            what = f"{name} value for life, a device reports in the first and in the last epoch"
            yield Match(Check.PARTICIPATION, what, count, total, together)
    what = "two devices report in the same epochs"
    same = Fraction(1, comb(life.of, life.reports))
    yield Match(Check.PARTICIPATION, what, lives.alike, lives.pairs, same)


def life_manners(subject: Subject, life: Participation) -> list[Rule]:
    """Asked again, with another value, and opened again, a device says the same, or is silent again."""
    again = changed = opened = back = wrong = cases = answered = 0
    for number in range(_REOPENED):
        one, other = subject.model.pair if number % 2 else subject.model.pair[::-1]
        device = subject.client.device()
        made, last = 0, None
        for epoch in range(life.of):
            first = device.report(one, epoch)
            again += device.report(one, epoch) != first
            changed += device.report(other, epoch, step=1) != first
            cases += 1
            if first is None and epoch % max(1, life.of // 8):
                continue
            made += first is not None
            device.reopen()
            opened += device.report(other, epoch, step=1) != first
            if first is not None:
                answered += 1
                back += last is not None and device.report(one, last) is not None
                last = epoch
        wrong += made != life.reports
    text = f"opened again all its life, it reports in {life.reports} of its {life.of} epochs"
    return [
        Rule(Check.REPEAT, "asked again, a device gives the same bytes, or is silent again", again, cases),
        Rule(Check.REPEAT, "asked again with another value, it does the same", changed, cases),
        Rule(Check.REOPEN, "opened again, it does the same with another value", opened, cases),
        Rule(Check.ORDER, "an epoch before the last one is refused", back, answered),
        Rule(Check.PARTICIPATION, text, wrong, _REOPENED),
    ]
