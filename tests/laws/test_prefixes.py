"""Laws of prefixes of texts, exact: over all lengths, functions and symbols, and by the device's own code."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import log, sqrt
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ldpbeam.channels.exact import exp_below
from ldpbeam.collection.collection import Collection
from ldpbeam.hashing import ListedFamily
from ldpbeam.hashing.strings import Strings
from ldpbeam.protocols import Memo
from ldpbeam.randomness import SystemRandomness
from tests.narrow import present
from tests.reference.counting import affine_hash
from tests.reference.device_law import first_reports
from tests.vectors.strings import collection

WEIGHTS = (3, 4, 9)
STRINGS = Strings(6, "abc", fold=True, drop=False, lengths=(2, 4, 6), weights=WEIGHTS)
ASKED = (
    collection(STRINGS, epsilon=1.0),
    collection(STRINGS, "loloha", epsilon_longitudinal=2.0, epsilon_first=1.0),
    collection(STRINGS, "loloha", epsilon_longitudinal=1.0, epsilon_first=0.5, g=2),
)
# All prefixes in common, two of three, one, none, and none of texts without symbols.
PAIRS = (
    ("abcabc", "abcabc"),
    ("abcabc", "ABcab"),
    ("abca", "abc"),
    ("aaaaaa", "bbbbbb"),
    ("", "not written"),
)
every = pytest.mark.parametrize(
    "asked", ASKED, ids=lambda one: f"{one.protocol_name}{one.protocol.parts[0].g}"
)


def symbols_of(level: Any, fingerprint: int) -> list[int]:
    """Under each function of the list."""
    return [
        affine_hash(int(a), int(c), fingerprint, level.g) for a, c in zip(*level.family.words(), strict=True)
    ]


@every
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_first_reports_have_the_stated_law_and_level(asked: Collection, pair: tuple[str, str]) -> None:
    """Each length by its weight, each function equally often, the symbol by the two rounds."""
    built: Any = asked.protocol
    level = built.parts[0]
    values = [STRINGS.fingerprints(text) for text in pair]
    hashed = [[symbols_of(level, one) for one in value] for value in values]
    (own, lie), sums, worst = level.symbol, [Fraction(0)] * 2, Fraction(1)
    responses = list(built.law.responses())
    for response in responses:
        index, (seed, symbol) = response
        stated = [
            Fraction(WEIGHTS[index], 16) * (own if one[index][seed] == symbol else lie) for one in hashed
        ]
        assert [built.law.likelihood(response, value) for value in values] == stated
        sums = [a + b for a, b in zip(sums, stated, strict=True)]
        worst = max(worst, stated[0] / stated[1], stated[1] / stated[0])
    assert len(responses) == len(set(responses)) == 3 * len(hashed[0][0]) * level.g
    assert sums == [len(hashed[0][0])] * 2
    assert worst == (1 if values[0] == values[1] else built.guarantee.first_ratio)
    assert worst <= exp_below(asked.parameters.epsilon_first or asked.parameters.level("epsilon"))


@every
@pytest.mark.parametrize("text", ["", "abcabc", "cc"])
def test_the_device_code_has_the_stated_law(asked: Collection, text: str) -> None:
    """Over every word but that of the function, of which some stand for all."""
    built: Any = asked.protocol
    value, functions = STRINGS.fingerprints(text), set[int]()
    for number in range(12):
        law = first_reports(built, value, number).law
        functions |= {response.response.seed for response in law}
        assert len(law) == 3 * built.parts[0].g
        assert law == {response: built.law.likelihood(response, value) for response in law}
    assert len(functions) > 9


class NextFunction(ListedFamily):
    """Hashes by the function that follows in the list."""

    def hash(self, seed: int, value: int) -> int:
        return super().hash((seed + 1) % self.functions, value)


@every
@pytest.mark.parametrize("wrong", ["weights", "function", "symbol"])
def test_a_device_with_another_law_is_seen(asked: Collection, wrong: str) -> None:
    """Weights in another order; a function under its neighbour's number; prefixes one symbol too short."""
    built: Any = asked.protocol
    device, given = built.device, STRINGS.fingerprints("abcabc")
    if wrong == "weights":
        device = replace(device, draws=WEIGHTS[::-1])
    elif wrong == "function":
        family = NextFunction(built.parts[0].g, built.parts[0].domain_size)
        device = replace(device, devices=tuple(replace(one, family=family) for one in device.devices))
    else:
        given = replace(STRINGS, lengths=(1, 3, 5)).fingerprints("abcabc")
    stated, laws = STRINGS.fingerprints("abcabc"), []
    for number in range(12):
        laws.append(first_reports(cast(Any, SimpleNamespace(device=device)), given, number).law)
    different = [law != {one: built.law.likelihood(one, stated) for one in law} for law in laws]
    assert sum(different) > 6


@every
def test_a_life_has_one_length_one_function_and_few_answers(asked: Collection) -> None:
    """At most g answers; all histories of three reports lose at most what is stated, at most g·ε∞."""
    built: Any = asked.protocol
    g = built.parts[0].g
    memo = born = built.device.new_memo(SystemRandomness())
    for number in range(200):
        text = "".join("abc"[number // 3**i % 3] for i in range(number % 7))
        response, memo = built.device.privatize(STRINGS.fingerprints(text), memo, SystemRandomness())
        assert response.attribute == memo.seed == born.seed
        assert memo.parts[0].seed == born.parts[0].seed
    if asked.protocol_name == "olh":
        assert memo == Memo(born.seed, {}, (Memo(),))
        return
    assert 1 <= len(memo.parts[0].answers) <= g  # a short prefix has few hashes
    longest, cap = asked.parameters.level("epsilon_longitudinal"), present(built.guarantee.cap_over_inputs)
    assert present(built.guarantee.memoised_ratio) <= exp_below(longest)
    assert cap <= g * longest * (1 + 1e-12)
    stated = min(cap, present(present(built.losses).any_changes(3)))
    for kind in built.law.model((STRINGS.fingerprints("abcabc"), STRINGS.fingerprints("abbbbb"))).strata:
        for symbols in product(range(kind.symbols), repeat=3):
            chances = [kind.history(pattern, symbols) for pattern in product(range(2), repeat=3)]
            assert log(max(chances) / min(chances)) <= stated + 1e-12


@every
def test_an_estimate_is_the_truth_but_for_what_the_list_makes_of_others(asked: Collection) -> None:
    """Another text adds its frequency times (c − 1/g)/(1 − 1/g), if it collides under a share c of the list.

    This factor has mean 0 and deviation 1/√((g − 1)·F) over texts, and is fixed for two of them.
    """
    level: Any = asked.protocol.parts[0]
    prints = [
        STRINGS.fingerprints(text)[-1] for text in ("abcabc", "abcab", "aaa", "bbb", "", "c", "not written")
    ]
    shares = [Fraction(i + 1, 28) for i in range(7)]
    hashed = [symbols_of(level, one) for one in prints]
    support, even = level.estimator.support, Fraction(1, level.g)
    for v, mine in enumerate(hashed):
        together = [Fraction(sum(map(int.__eq__, mine, yours)), len(mine)) for yours in hashed]
        factors = [Fraction(v == w) or (c - even) / (1 - even) for w, c in enumerate(together)]
        assert max(abs(one) for one in factors if one < 1) < 5 / sqrt((level.g - 1) * len(mine))
        found = sum(
            (f * level.supported(prints[v], w) for f, w in zip(shares, prints, strict=True)), Fraction(0)
        )
        assert (found - support.other) / support.gap == sum(map(Fraction.__mul__, shares, factors))
