"""The code in docs/privacy.md that renames symbols: lossless, one law for a class, fewest functions."""

from __future__ import annotations

import re
from collections import defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from ldpbeam.hashing import LinearFamily
from ldpbeam.indicators import indicators
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.shuffling.randomiser import many_epochs, one_epoch
from ldpbeam.shuffling.shuffle import central_epsilon
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.support import Support
from tests.conftest import REPOSITORY
from tests.narrow import present

BOTH = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
KEY = bytes(range(16))
PAGE: dict[str, Any] = {}
(_BLOCK,) = re.findall(
    r"^```python\n(.*?)^```$", (REPOSITORY / "docs" / "privacy.md").read_text("utf-8"), re.M | re.S
)
exec(compile(_BLOCK, "docs/privacy.md", "exec"), PAGE)
renamed, renamed_payload = PAGE["renamed"], PAGE["renamed_payload"]


def loloha(k: int, g: int, **more: Any) -> LocalHash:
    kind = protocol("loloha", k, Parameters(g=g, **{**BOTH, **more}))
    assert isinstance(kind, LocalHash)
    return kind


@pytest.mark.parametrize(("g", "k"), [(2, 8), (3, 27), (7, 6)])
def test_a_renamed_report_supports_the_same_values(g: int, k: int) -> None:
    """Every function, symbol, factor and value."""
    family = LinearFamily(g, k)
    for seed, symbol, factor in product(family.seeds(), range(g), range(1, g)):
        other, name = renamed(family, seed, symbol, factor)
        for value in range(k):
            assert (family.hash(seed, value) == symbol) == (family.hash(other, value) == name)
    # c ↦ c·s is one to one for each s, and classes have g − 1 members each.
    for seed in family.seeds():
        assert len({renamed(family, seed, 0, c)[0] for c in range(1, g)}) == g - 1
    classes = {frozenset(renamed(family, s, 0, c)[0] for c in range(1, g)) for s in family.seeds()}
    assert len(classes) == family.classes == (family.points - 1) // (g - 1)


@pytest.mark.parametrize(("g", "k"), [(5, 24)])
def test_counts_and_indicators_stay_as_they_are(g: int, k: int) -> None:
    """Not one support count changes, and devices of honest draws raise no alarm."""
    kind, devices = loloha(k, g), 6_000
    fleet = ProtocolFleet(kind, devices, RandomWords(4))
    values = np.random.default_rng(2).integers(0, k, devices)
    (batch,) = list(fleet.reports(0, values))
    before, after = Support.zero(kind.counter.counts_length), Support.zero(kind.counter.counts_length)
    sent = [row.tobytes() for row in batch.payloads]
    ids = [int.from_bytes(row.tobytes(), "little") for row in batch.report_ids]
    mixed = [renamed_payload(kind, one, i, KEY) for one, i in zip(sent, ids, strict=True)]
    assert mixed == [renamed_payload(kind, one, i, KEY) for one, i in zip(sent, ids, strict=True)]
    moved = sum(one != other for one, other in zip(sent, mixed, strict=True)) / devices
    assert moved == pytest.approx((g - 2) / (g - 1), abs=0.03)
    for payloads, support in ((sent, before), (mixed, after)):
        kind.counter.add(np.frombuffer(b"".join(payloads), np.uint8).reshape(devices, -1), support.counts)
        support.reports = devices
        assert not any(one.alarm for one in indicators(kind, support))
    assert not np.array_equal(before.counts, after.counts)
    assert np.array_equal(
        kind.counter.support_counts(before.counts), kind.counter.support_counts(after.counts)
    )


def lives(kind: LocalHash, seed: int, values: tuple[int, ...], factors: int) -> dict[Any, Fraction]:
    """P(renamed reports) of a device with that function, its memo drawn for each symbol, factors fresh."""
    assert kind.rounds.permanent is not None
    family = kind.family
    found: dict[Any, Fraction] = defaultdict(Fraction)
    assert isinstance(family, LinearFamily)
    symbols = [family.hash(seed, value) for value in values]
    kept = sorted(set(symbols))
    for memo in product(range(kind.g), repeat=len(kept)):
        answers = dict(zip(kept, memo, strict=True))
        drawn = Fraction(1)
        for symbol, answer in answers.items():
            drawn *= kind.rounds.permanent.own if symbol == answer else kind.rounds.permanent.other
        for sent in product(range(kind.g), repeat=len(values)):
            chance = drawn
            for symbol, y in zip(symbols, sent, strict=True):
                chance *= kind.rounds.last.own if answers[symbol] == y else kind.rounds.last.other
            for names in product(range(1, factors + 1), repeat=len(values)):
                seen = tuple(renamed(family, seed, y, c) for y, c in zip(sent, names, strict=True))
                found[seen] += chance / factors ** len(values)
    return found


@pytest.mark.parametrize("values", [(1,), (0, 2), (2, 2)])
def test_behind_it_all_devices_of_a_class_look_alike(values: tuple[int, ...]) -> None:
    """Exactly, over several epochs, whatever changes; and without it they do not."""
    kind = loloha(8, 3)
    family = kind.family
    assert isinstance(family, LinearFamily)
    for seed in family.seeds():
        twin = renamed(family, seed, 0, 2)[0]
        law = lives(kind, seed, values, 2)
        assert law == lives(kind, twin, values, 2)
        assert sum(law.values()) == 1
        assert lives(kind, seed, values, 1) != lives(kind, twin, values, 1)


def test_the_crowd_is_a_class() -> None:
    for g, times in ((2, 1), (3, 2), (7, 6)):
        kind = loloha(360, g)
        for of in (one_epoch, many_epochs):
            plain, classes = present(of(kind)), present(of(kind, renamed=True))
            assert plain.functions == times * classes.functions
    kind = loloha(24, 5)
    plain, classes = present(one_epoch(kind)), present(one_epoch(kind, renamed=True))
    assert central_epsilon(classes, 200_000) < 0.6 * central_epsilon(plain, 200_000)
    assert one_epoch(loloha(24, 5, hash_family="affine"), renamed=True) is None
    olh = protocol("olh", 24, Parameters(epsilon=1.0))
    assert one_epoch(olh) == one_epoch(olh, renamed=True)
