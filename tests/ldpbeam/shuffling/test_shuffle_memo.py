"""Behind a shuffler, towards a server that knows the permanent answers of all other devices: by enumeration.

A server that has seen other epochs knows these answers, since they are in every epoch's reports. Given them,
and their numbers may be any, the counts of reports are a convolution of multinomials, summed here outcome by
outcome. Nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import exp
from typing import Any

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import binom

from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.direct import Direct
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.unary import Unary
from ldpbeam.shuffling.randomiser import Randomiser, many_epochs, one_epoch
from ldpbeam.shuffling.shuffle import central_epsilon, hockey_stick
from ldpbeam.shuffling.shuffle_plan import planned_epsilon

EXACT = 1e-12
"""What the sums in floats may be off by."""

Law = np.ndarray[Any, Any]
EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0)
DELTAS = (1e-1, 1e-2, 1e-4, 1e-9)
SYMBOLS = [("l_grr", 2), ("l_grr", 3), ("loloha", 2), ("loloha", 3)]
BITS = [("l_osue", 2), ("l_sue", 2), ("rappor", 2), ("l_soue", 2)]
LEVELS = [(2.0, 1.8), (1.0, 0.95), (2.0, 1.0), (0.5, 0.25)]


def built(name: str, size: int, levels: tuple[float, float]) -> Any:
    """A protocol over so many symbols or bits."""
    if name == "rappor":
        return protocol(name, size, Parameters(epsilon_longitudinal=levels[0]))
    if name == "l_soue":
        levels = levels[0], levels[0] / 2
    both = Parameters(epsilon_longitudinal=levels[0], epsilon_first=levels[1])
    if name == "loloha":
        return protocol(name, 9, replace(both, g=size))
    return protocol(name, size, both)


def stated(kind: Any) -> Randomiser:
    """Of devices that share a hash function, where there are such."""
    found = one_epoch(kind)
    assert found is not None
    return replace(found, functions=1)


def all_afresh(kind: Any) -> Randomiser:
    """What would hold if no permanent answer were ever seen twice."""
    found = stated(kind)
    return Randomiser(found.ratio, found.distance)


def rows(kind: Any) -> tuple[Law, Law]:
    """(P(report | permanent answer), P(report | input)), each of shape (answers or inputs, reports)."""
    if isinstance(kind, Unary):
        assert kind.rounds.permanent is not None
        k, both = kind.domain_size, []
        for own, other in (
            (float(kind.rounds.last.own), float(kind.rounds.last.other)),
            (float(kind.estimator.support.own), float(kind.estimator.support.other)),
        ):
            table = np.ones((1 << k, 1 << k))
            for held in range(1 << k):
                for sent in range(1 << k):
                    for bit in range(k):
                        one = own if held >> bit & 1 else other
                        table[held, sent] *= one if sent >> bit & 1 else 1 - one
            both.append(table)
        return both[0], both[1][[1 << value for value in range(k)]]
    assert isinstance(kind, Direct | LocalHash)
    assert kind.rounds.permanent is not None
    size = kind.rounds.last.size
    own, other = map(float, kind.rounds.permanent.then(kind.rounds.last))
    instant = np.full((size, size), float(kind.rounds.last.other))
    np.fill_diagonal(instant, float(kind.rounds.last.own))
    composed = np.full((size, size), other)
    np.fill_diagonal(composed, own)
    return instant, composed


def one(row: Law, reports: int) -> Law:
    """The counts of one report, an axis for each report but the last, of at most so many."""
    law = np.zeros((2,) * (row.size - 1) if reports else (1,) * (row.size - 1))
    law[(0,) * law.ndim] = row[-1]
    for place in range(row.size - 1):
        law[tuple(int(axis == place) for axis in range(law.ndim))] = row[place]
    return law


def convolved(first: Law, second: Law) -> Law:
    return np.asarray(np.maximum(fftconvolve(first, second), 0.0))


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Numbers of each of ``parts`` kinds."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


class Worlds:
    """The laws of what the server sees, of all numbers of the others' permanent answers."""

    def __init__(self, kind: Any) -> None:
        self.instant, self.composed = rows(kind)
        self.laws = [one(row, 1) for row in self.instant]

    @cache  # noqa: B019 - lives as long as its test
    def others(self, numbers: tuple[int, ...]) -> Law:
        if not any(numbers):
            return np.ones((1,) * self.laws[0].ndim)
        place = max(i for i, number in enumerate(numbers) if number)
        fewer = tuple(number - (i == place) for i, number in enumerate(numbers))
        return convolved(self.others(fewer), self.laws[place])

    def pair(self, numbers: tuple[int, ...]) -> tuple[Law, Law]:
        """Under two inputs of the device; by symmetry any two, as all numbers of the others are looked at."""
        others = self.others(numbers)
        return convolved(others, one(self.composed[0], 1)), convolved(others, one(self.composed[1], 1))


def stick(pair: tuple[Law, Law], epsilon: float) -> float:
    return float(np.sum(np.maximum(pair[0] - exp(epsilon) * pair[1], 0.0)))


def curve(found: Randomiser, devices: int) -> dict[float, float]:
    """δ at each ε: how many others hide the device is binomial."""
    chance = binom.pmf(np.arange(devices), devices - 1, found.chances.hiding)
    sticks = [hockey_stick(found, others) for others in range(devices)]
    return {e: sum(c * one(e) for c, one in zip(chance, sticks, strict=True)) for e in EPSILONS}


def fleets(kind: Any, *, thorough: bool) -> list[int]:
    reports = rows(kind)[0].shape[1]
    if reports == 2:
        return list(range(2, 41)) if thorough else [2, 3, 7, 40]
    if reports == 3:
        return [2, 3, 5, 8, 13, 20, 40] if thorough else [2, 4, 9]
    return [2, 3, 4, 6, 10] if thorough else [2, 4]


def refuted(worlds: Worlds, found: Randomiser, wrong: Randomiser, fleets: list[int]) -> bool:
    """Check what is stated of all fleets; and say whether the enumeration shows ``wrong`` to be too small."""
    seen = False
    for devices in fleets:
        worst = dict.fromkeys(EPSILONS, 0.0)
        at = {delta: central_epsilon(found, devices, 1, delta) for delta in DELTAS}
        for numbers in compositions(devices - 1, len(worlds.laws)):
            pair = worlds.pair(numbers)
            for epsilon in EPSILONS:
                worst[epsilon] = max(worst[epsilon], stick(pair, epsilon))
            for delta, epsilon in at.items():
                assert stick(pair, epsilon) <= delta + EXACT, (devices, numbers, delta)
                assert stick(pair, planned_epsilon(found, devices, 1, delta)) <= delta + EXACT
        bound, less = curve(found, devices), curve(wrong, devices)
        for epsilon in EPSILONS:
            assert worst[epsilon] <= bound[epsilon] + EXACT, (devices, epsilon)
        seen |= any(worst[epsilon] > less[epsilon] + EXACT for epsilon in EPSILONS)
    return seen


@pytest.mark.parametrize("levels", LEVELS[:2])
@pytest.mark.parametrize(("name", "size"), SYMBOLS + BITS[:2])
@pytest.mark.cases(5)
def test_one_report_tells_no_more_than_stated(name: str, size: int, levels: tuple[float, float]) -> None:
    """Whatever the others memoised. Both rounds of the others drawn afresh would state too little."""
    kind = built(name, size, levels)
    assert refuted(Worlds(kind), stated(kind), all_afresh(kind), fleets(kind, thorough=False))


@pytest.mark.thorough
@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize(("name", "size"), SYMBOLS + BITS)
def test_one_report_of_more_fleets(name: str, size: int, levels: tuple[float, float]) -> None:
    kind = built(name, size, levels)
    refuted(Worlds(kind), stated(kind), all_afresh(kind), fleets(kind, thorough=True))


@pytest.mark.parametrize(("name", "size"), SYMBOLS)
def test_one_of_many_reports_is_the_same_with_what_the_device_memoised(name: str, size: int) -> None:
    """One derivation: the device's rows are then those of the second round too."""
    kind = built(name, size, (2.0, 1.0))
    often, once = many_epochs(kind), one_epoch(kind)
    assert often is not None
    assert once is not None
    assert often == replace(
        once, ratio=kind.rounds.last.ratio, distance=kind.rounds.last.own - kind.rounds.last.other
    )
    worlds = Worlds(kind)
    worlds.composed = worlds.instant
    wrong = replace(stated(kind), ratio=often.ratio)
    assert refuted(worlds, replace(often, functions=1), wrong, fleets(kind, thorough=False))


@pytest.mark.parametrize("name", ["l_osue", "l_sue"])
def test_three_bits_tell_no_more_than_stated(name: str) -> None:
    kind = built(name, 3, (2.0, 1.8))
    assert refuted(Worlds(kind), stated(kind), all_afresh(kind), [2, 3])


def seen_by_its_other_bits(kind: Unary, devices: int, least: int) -> tuple[Law, Law]:
    """(10 reports, 01 reports) among those with at least so many ones beyond the two bits of two values."""
    assert kind.rounds.permanent is not None
    own, other = map(float, kind.rounds.permanent.then(kind.rounds.last))
    zero = float(kind.rounds.last.other)
    many, counts = kind.domain_size - 2, np.arange(40)
    theirs = float(binom.sf(least - 1, many, zero)) * zero * (1 - zero)
    mine = float(binom.sf(least - 1, many, other))
    rest = np.outer(binom.pmf(counts, devices - 1, theirs), np.ones(40))
    for first in counts:  # given how many 10 there are
        rest[first] *= binom.pmf(counts, devices - 1 - first, theirs / (1 - theirs))
    pair = []
    for one_first, one_second in ((own, other), (other, own)):
        law = np.array(
            [[0.0, mine * one_second * (1 - one_first)], [mine * one_first * (1 - one_second), 0.0]]
        )
        law[0, 0] = 1 - law.sum()
        pair.append(convolved(rest, law))
    return pair[0], pair[1]


def test_many_values_of_a_unary_memo_are_not_covered() -> None:
    """The other bits of a report tell it from those of devices whose permanent answers are known."""
    kind, two = built("l_osue", 100, (2.0, 1.8)), one_epoch(built("l_osue", 2, (2.0, 1.8)))
    assert two is not None
    assert isinstance(kind, Unary)
    devices, delta = 100_000, 1e-4
    wrong = central_epsilon(two, devices, 1, delta)
    assert stick(seen_by_its_other_bits(kind, devices, 15), wrong) > 1000 * delta
    assert one_epoch(kind) is None
    assert one_epoch(built("l_osue", 360, (2.0, 1.0))) is None
    few, more = one_epoch(built("l_osue", 3, (2.0, 1.0))), one_epoch(built("l_osue", 6, (2.0, 1.0)))
    assert few is not None
    assert more is not None
    assert 4 * central_epsilon(few, 10**6) < central_epsilon(more, 10**6) < more.local / 2


@pytest.mark.parametrize(
    ("name", "size", "levels"),
    [("l_grr", 7, (2.0, 1.0)), ("l_osue", 360, (2.0, 1.0)), ("loloha", 3, (2.0, 1.0))],
)
def test_of_one_report_in_a_life_there_is_no_permanent_answer_to_know(
    name: str, size: int, levels: tuple[float, float]
) -> None:
    """It is a report of a one-round protocol, with a hash function of its own."""
    kind = built(name, size, levels)
    alone = one_epoch(kind, alone=True)
    assert alone == Randomiser(kind.guarantee.first_ratio, kind.estimator.support.gap)


def of_two_symbols(kind: Any, devices: int, held: int) -> tuple[Law, Law]:
    """The law of the number of first symbols, if so many others memoised the first one."""
    own, other = float(kind.rounds.last.own), float(kind.rounds.last.other)
    counts = np.arange(devices)
    rest = convolved(binom.pmf(counts, held, own), binom.pmf(counts, devices - 1 - held, other))[:devices]
    mine = [np.array([1 - p, p]) for p in map(float, kind.rounds.permanent.then(kind.rounds.last))]
    return convolved(rest, mine[0]), convolved(rest, mine[1])


@pytest.mark.parametrize(("levels", "old"), [((2.0, 1.8), 0.1451), ((1.0, 0.95), 0.0602), ((2.0, 1.0), None)])
def test_ten_thousand_devices_of_two_values(levels: tuple[float, float], old: float | None) -> None:
    """Whatever share of the others memoised one value. What was stated before (old) is exceeded far."""
    kind, devices = built("l_grr", 2, levels), 10_000
    found = one_epoch(kind)
    assert found is not None
    exact, quick = central_epsilon(found, devices), planned_epsilon(found, devices)
    assert exact <= quick < 0.5 * found.local
    for held in (0, 1, devices // 10, devices // 2, devices - 1):
        pair = of_two_symbols(kind, devices, held)
        for both in (pair, pair[::-1]):
            assert stick(both, exact) <= 1e-9
            assert old is None or stick(both, old) > 1e-6


@pytest.mark.parametrize(
    ("name", "size", "levels", "devices", "least"),
    [
        ("l_grr", 2, (2.0, 1.8), 10**4, 0.2422),
        ("l_grr", 2, (1.0, 0.95), 10**4, 0.1755),
        ("l_grr", 2, (1.0, 0.95), 10**6, 0.0143),
        ("l_grr", 10, (2.0, 1.8), 10**4, 0.1650),
        ("l_grr", 10, (2.0, 1.8), 10**6, 0.0152),
        ("l_grr", 10, (2.0, 1.5), 10**6, 0.00760),
        ("l_grr", 10, (2.0, 1.0), 10**4, 0.0362),
        ("l_grr", 10, (2.0, 1.0), 10**6, 0.00327),
        ("l_grr", 2, (0.5, 0.25), 10**4, 0.0137),
        ("l_grr", 2, (1.0, 0.5), 10**4, 0.0282),
    ],
)
def test_what_a_server_has_been_shown_to_learn_is_stated(
    name: str, size: int, levels: tuple[float, float], devices: int, least: float
) -> None:
    """Lower bounds at 1e-9 that were computed by other code than this project's; at most twice as much."""
    found = one_epoch(built(name, size, levels))
    assert found is not None
    assert least <= central_epsilon(found, devices) <= planned_epsilon(found, devices) < 2 * least
