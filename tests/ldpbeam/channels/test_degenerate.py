"""Degenerate payloads: what no input draws with 2⁻⁵⁰ or more is refused, and nothing else. All exact."""

from __future__ import annotations

import random
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import pytest

from ldpbeam.channels.degenerate import (
    BOUND,
    CELLS,
    REACH,
    add_seeds,
    is_degenerate,
    ordinary,
    ordinary_many,
    tail,
    tail_from,
)
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols import PROTOCOLS, Memo, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import allocate
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.public_string import BinFlipPlus
from ldpbeam.protocols.unary import Unary
from ldpbeam.randomness import FULL
from tests.reference.script import ScriptedRandomness

LEVELS: dict[str, Any] = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
VECTORS = [name for name, kind in PROTOCOLS.items() if issubclass(kind, Unary)] + ["binflip"]


def built(name: str, k: int, **more: Any) -> Any:
    takes = PROTOCOLS[name].PARAMETERS
    return protocol(name, k, Parameters(**{n: v for n, v in LEVELS.items() if n in takes}, **more))


def ones_law(chances: list[Fraction]) -> list[Fraction]:
    """P(number of ones) of independent bits, by the definition: one bit after the other."""
    whole = lcm(*(chance.denominator for chance in chances))
    weights = [1]  # integers over whole**bits: reducing fractions would take all the time
    for chance in chances:
        one = int(chance * whole)
        zeros, ones = [w * (whole - one) for w in weights], [w * one for w in weights]
        weights = [a + b for a, b in zip([*zeros, 0], [0, *ones], strict=True)]
    return [Fraction(w, whole ** len(chances)) for w in weights]


def binomial(n: int, p: Fraction, own: Fraction) -> list[Fraction]:
    """P(number of ones) of one own bit and n − 1 others."""
    return ones_law([own] + [p] * (n - 1))


# --- the tails


def test_tails_are_exact() -> None:
    draw = random.Random(1)
    for _ in range(60):
        bits = draw.randint(1, 40)
        special = draw.choice([None, Fraction(draw.randint(1, 99), 100)])
        common = Fraction(draw.randint(1, 99), 100)
        bound = Fraction(1, 1 << draw.randint(1, 55))
        law = ones_law(([] if special is None else [special]) + [common] * (bits - (special is not None)))
        tails = [sum(law[t:], Fraction(0)) for t in range(bits + 2)]
        assert tail_from(bits, special, common, bound) == next(t for t, p in enumerate(tails) if p < bound)
        for t in (1, bits // 2 + 1, bits):
            assert tail(bits, special, common, t) == pytest.approx(float(tails[t]), rel=1e-13)


@pytest.mark.parametrize("special", [None, Fraction(1, 2), Fraction(1, 10**6)])
@pytest.mark.parametrize(
    "common", [Fraction(27, 100), Fraction(1, 2), Fraction(1, 5_000), Fraction(4_999, 5_000)]
)
@pytest.mark.cases(4)
def test_a_tail_of_many_bits_is_that_of_the_whole_sum(special: Fraction | None, common: Fraction) -> None:
    for bits, bound in ((30_000, Fraction(1, 1 << 51)), (9_000, Fraction(1, 1 << 14))):
        found = tail_from(bits, special, common, bound)
        assert tail(bits, special, common, found) < bound <= tail(bits, special, common, found - 1)


# --- bit vectors


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("k", [2, 8, 100])
def test_vectors_outside_have_less_than_the_bound_and_no_more_could_be_refused(name: str, k: int) -> None:
    kind = built(name, k)
    least, most = kind.counter.bits.ones
    own, other = kind.estimator.support.own, kind.estimator.support.other
    law = binomial(k, other, own)
    below, above = sum(law[:least], Fraction(0)), sum(law[most + 1 :], Fraction(0))
    assert below + above < BOUND
    # One more on either side would take more than the half of the bound that each side has.
    assert below + law[least] >= BOUND / 2
    assert above + law[most] >= BOUND / 2
    if k <= 8:
        assert (least, most) == (0, k)
    if k == 100 and name != "l_oue":
        assert most < k


def test_sampled_buckets_are_few_and_their_answers_are_all_admitted_or_rare() -> None:
    small = protocol("dbitflip_pm", 100, Parameters(epsilon_longitudinal=2.0, d=4))
    large = protocol("dbitflip_pm", 500, Parameters(epsilon_longitudinal=1.0, d=100))
    assert isinstance(small, BitFlip)
    assert isinstance(large, BitFlip)
    assert small.counter.bits.ones == (0, 4)
    least, most = large.counter.bits.ones
    assert 0 < least < most < 100
    own, other = large.channel.own, large.channel.other
    with_own, without = binomial(100, other, own), ones_law([other] * 100)
    for law in (with_own, without):
        assert sum(law[:least]) + sum(law[most + 1 :]) < BOUND
    assert sum(with_own[most:]) >= BOUND / 2
    assert sum(without[: least + 1]) >= BOUND / 2


def refusals(kind: Any, payloads: list[bytes]) -> list[Reason | None]:
    """By the slow reference, which must agree with the fast path."""
    slow: list[Reason | None] = []
    for payload in payloads:
        try:
            kind.device.decode(payload)
        except InvalidPayload as error:
            slow.append(error.reason)
        else:
            slow.append(None)
    rows = np.frombuffer(b"".join(payloads), np.uint8).reshape(len(payloads), -1)
    assert [CheckCode(code).reason for code in kind.counter.check(rows)] == slow
    return slow


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("k", [30, 64, 361])
@pytest.mark.cases(12)
def test_fast_and_slow_agree_around_the_edges(name: str, k: int) -> None:
    kind = built(name, k)
    least, most = kind.counter.bits.ones
    draw = random.Random(k)
    counts = sorted({c for c in (0, least - 1, least, k // 2, most, most + 1, k) if 0 <= c <= k})
    payloads = []
    for ones in counts:
        bits = sum(1 << v for v in draw.sample(range(k), ones))
        payloads.append(bits.to_bytes(kind.device.payload_size, "little"))
    wanted = [None if least <= ones <= most else Reason.DEGENERATE for ones in counts]
    assert refusals(kind, payloads) == wanted
    assert refusals(kind, payloads * 700) == wanted * 700  # more rows than one piece
    if k % 8:
        beyond = bytes(kind.device.payload_size - 1) + b"\x80"
        assert refusals(kind, [beyond]) == [Reason.UNUSED_BITS]


def test_sampled_answers_fast_and_slow_agree() -> None:
    kind = protocol("dbitflip", 500, Parameters(epsilon=0.9, d=100))
    assert isinstance(kind, BitFlip)
    least, most = kind.counter.bits.ones
    payloads = []
    for ones in (0, least - 1, least, most, most + 1, 100):
        entries = [2 * i + (i < ones) for i in range(100)]
        payloads.append(b"".join(e.to_bytes(kind.device.width, "little") for e in entries))
    refused = Reason.DEGENERATE
    assert refusals(kind, payloads) == [refused, refused, None, None, refused, refused]


def test_counters_together_whatever_they_hold() -> None:
    kind: Any = allocate("together", "one_bit_mean", (101,) * 150, Parameters(epsilon=1.0))
    least, most = kind.counter.bits.ones
    assert 0 < least < most < 150
    ends, draw = kind.parts[0].ends, random.Random(2)
    holdings = [[0] * 150, [100] + [0] * 149, [1] * 100 + [0] * 50, [50, 50] + [0] * 148]
    holdings += [np.bincount([draw.randrange(150) for _ in range(100)], minlength=150).tolist()]
    for held in holdings:
        law = ones_law([kind.parts[0].law.one(x) for x in held])
        assert sum(law[:least]) + sum(law[most + 1 :]) < BOUND
    full = ones_law([ends.other] * 150)
    assert sum(full[: least + 1]) >= BOUND / 2
    payloads = [
        ((1 << ones) - 1).to_bytes(19, "little") for ones in (0, least - 1, least, most, most + 1, 150)
    ]
    refused = Reason.DEGENERATE
    assert refusals(kind, payloads) == [refused, refused, None, None, refused, refused]
    few: Any = allocate("together", "one_bit_mean", (101,) * 5, Parameters(epsilon=1.0))
    assert refusals(few, [bytes([31]), bytes([0])]) == [None, None]


# --- multipliers of an affine hash

EDGES = [0, 1, REACH - 1, FULL - 1, FULL - REACH + 1]
BESIDES = [REACH, FULL - REACH, 1 << 63]


def test_degenerate_multipliers_are_rarer_than_the_bound_and_exchanged_for_others() -> None:
    assert Fraction(2 * REACH - 1, FULL) < BOUND < Fraction(4 * REACH - 1, FULL)
    everyone = [a % FULL for a in range(-REACH + 1, REACH)]
    assert all(map(is_degenerate, everyone))
    assert not any(map(is_degenerate, BESIDES))
    exchanged = {ordinary(a) for a in everyone}
    assert len(exchanged) == len(everyone)
    assert not any(map(is_degenerate, exchanged))
    assert [ordinary(a) for a in BESIDES] == BESIDES
    many = np.array(everyone + BESIDES, np.uint64)
    assert ordinary_many(many).tolist() == [ordinary(a) for a in many.tolist()]


def forged_seeds(a: int) -> list[tuple[Any, bytes]]:
    """Payloads with the multiplier, of everything that sends one."""
    affine = {"hash_family": "affine"}
    found: list[tuple[Any, bytes]] = []
    for kind in (built("olh", 100, **affine), built("blh", 100, **affine), built("loloha", 100, **affine)):
        found.append((kind, kind.family.encode(a | 99 << 64, 1)))
    wide = protocol("olh", 100, Parameters(epsilon=6.5, hash_family="affine", g=700))
    found.append((wide, wide.family.encode(a | 99 << 64, 699)))  # type: ignore[attr-defined]
    plus = built("binflip_plus", 100)
    words = (a | 99 << 64).to_bytes(16, "little")
    found += [(plus, words + bytes([bit])) for bit in (0, 1)]
    sizes, parameters = (100, 50), Parameters(epsilon=1.0, hash_family="affine")
    sample = allocate("sample", "olh", sizes, parameters)
    part = sample.parts[1].family.encode(a | 99 << 64, 1)  # type: ignore[attr-defined]
    found.append((sample, b"\x01" + part))
    split = allocate("split", "olh", sizes, parameters)
    good = split.parts[0].family.encode((1 << 63) | 99 << 64, 1)  # type: ignore[attr-defined]
    found.append((split, good + split.parts[1].family.encode(a | 99 << 64, 1)))  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("a", EDGES + BESIDES)
def test_they_are_refused_wherever_a_hash_is_sent(a: int) -> None:
    for kind, payload in forged_seeds(a):
        assert refusals(kind, [payload]) == [Reason.DEGENERATE if a in EDGES else None], kind.NAME


@pytest.mark.parametrize("a", EDGES)
def test_a_device_that_draws_one_is_not_stuck(a: int) -> None:
    for name in ("olh", "blh", "binflip_plus"):
        more = {} if name == "binflip_plus" else {"hash_family": "affine"}
        kind = built(name, 100, **more)
        response, _ = kind.device.privatize(7, Memo(), ScriptedRandomness([a, 99, 5]))
        assert refusals(kind, [kind.device.encode(response)]) == [None]
        assert sum(kind.law.likelihood(r, 7) for r in answers(kind, response)) == 1
    kind = built("loloha", 100, hash_family="affine")
    memo = kind.device.new_memo(ScriptedRandomness([a, 99]))
    response, _ = kind.device.privatize(7, memo, ScriptedRandomness([5, 5]))
    assert refusals(kind, [kind.device.encode(response)]) == [None]
    # A fleet that is fed the same words sends the same reports.
    seeds = kind.family.seed_columns(np.array([[a, 99]], np.uint64))
    payload = kind.family.pack(seeds, np.array([response.symbol]))
    assert payload.tobytes() == kind.device.encode(response)


def answers(kind: Any, response: Any) -> list[Any]:
    """Every response with the same seed."""
    symbols = range(2) if isinstance(kind, BinFlipPlus) else range(kind.g)
    return [type(response)(response.seed, symbol) for symbol in symbols]


def test_a_fleet_of_binflip_plus_exchanges_as_a_device_does() -> None:
    kind = built("binflip_plus", 100)

    class Words:
        def seed(self, spec: Any) -> Any:
            return np.array([[a, 99] for a in EDGES], np.uint64)

        def instant(self, spec: Any) -> Any:
            return np.full((len(EDGES), 1), 5, np.uint64)

    n = len(EDGES)
    fleet = kind.simulation.privatize(np.arange(n), np.full(n, 7), Words(), None)
    devices = [kind.device.privatize(7, Memo(), ScriptedRandomness([a, 99, 5]))[0] for a in EDGES]
    assert fleet.tobytes() == b"".join(map(kind.device.encode, devices))


def test_classes_of_seeds_are_those_of_the_formula() -> None:
    draw = random.Random(3)
    seeds = [0, 1, FULL - 1, (FULL - 1) << 64, FULL**2 - 1, *(draw.getrandbits(128) for _ in range(3000))]
    payloads = np.frombuffer(b"".join(s.to_bytes(16, "little") + b"\0" for s in seeds), np.uint8)
    wanted = [2] * CELLS
    for seed in seeds:
        wanted[((seed % FULL) ^ (seed >> 64)) * 0x9E3779B97F4A7C15 % FULL * CELLS // FULL] += 1
    signs = np.full(CELLS, 2, np.int64)
    add_seeds(payloads.reshape(-1, 17), signs)
    assert signs.tolist() == wanted
