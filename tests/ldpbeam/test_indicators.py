"""Signs of forged reports: what honest fleets cause, what planted attacks cause, and which cause nothing.

Seeds are fixed, so a green run stays green. With fresh ones the about 500 honest results here would have an
alarm once in 2,000 runs at most.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2, poisson

from ldpbeam.accounting import Account
from ldpbeam.channels.degenerate import REACH
from ldpbeam.hashing import FAMILIES
from ldpbeam.hashing.strings import ALPHABETS, Strings
from ldpbeam.indicators import (
    _SAFETY,
    FALSE_ALARM,
    _rare_reports,
    _two_sided,
    indicators,
)
from ldpbeam.protocols import PROTOCOLS, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import allocate
from ldpbeam.protocols.contract import MeanProtocol
from ldpbeam.protocols.laplace_mean import RARE, LaplaceMean
from ldpbeam.protocols.piecewise_mean import PiecewiseMean
from ldpbeam.protocols.prefixes import of_strings
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.support import Support
from ldpbeam.transforms.coders import SupportCoder
from tests.narrow import frequencies, present

LEVELS: dict[str, Any] = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0, "d": 4}
K, N, FORGED = 100, 100_000, 1_000
"""The reference setting: 1 % forged reports."""


def built(name: str, k: int = K, **more: Any) -> Any:
    takes = PROTOCOLS[name].PARAMETERS
    return protocol(name, k, Parameters(**{n: v for n, v in LEVELS.items() if n in takes}, **more))


CASES = [
    (name, {"hash_family": family} if family else {})
    for name, kind in PROTOCOLS.items()
    for family in (FAMILIES if "hash_family" in kind.OPTIONAL else ("",))
]


def add(kind: Any, support: Support, payloads: Any) -> Support:
    assert not kind.counter.check(payloads).any()
    kind.counter.add(payloads, support.counts)
    kind.counter.add_signs(payloads, support.signs)
    support.reports += len(payloads)
    return support


def honest(kind: Any, n: int, seed: int) -> Support:
    values = np.minimum(np.random.default_rng(seed).zipf(1.3, n) - 1, kind.domain_size - 1).astype(np.int32)
    support = Support.zero_of(kind.counter)
    for batch in ProtocolFleet(kind, n, RandomWords(seed)).reports(0, values):
        add(kind, support, batch.payloads)
    return support


def alarms(kind: Any, support: Support) -> set[str]:
    return {one.name for one in indicators(kind, support) if one.alarm}


# --- honest devices


@pytest.mark.parametrize(("name", "more"), CASES, ids=str)
@pytest.mark.cases(10)
def test_honest_fleets_raise_no_alarm_and_p_values_are_not_too_small(name: str, more: dict[str, Any]) -> None:
    """20 fleets: each p-value is below 0.02 too seldom for chance; 8 of 20 would happen once in 10⁹."""
    kind = built(name, **more)
    small: dict[str, int] = {}
    for seed in range(20):
        support = honest(kind, 2_500, seed)
        assert alarms(kind, support) == set()
        for one in indicators(kind, support):
            small[one.name] = small.get(one.name, 0) + (one.p_value < 0.02)
    assert small
    assert max(small.values()) < 8
    assert binom.sf(7, 20, 0.02) < 1e-8


@pytest.mark.parametrize("cells", [2, 10, 100, 1000])
def test_chi_squared_holds_as_far_out_as_an_alarm(cells: int) -> None:
    """The law of the statistic for Poisson cells of 100 reports, exact by convolution, at a chance of
    1e-7."""
    expected = 100
    x = np.arange(700)
    limit = chi2.isf(1e-7 / _SAFETY, cells) * expected
    squares = (x - expected) ** 2
    size = 1 << int(np.ceil(np.log2(max(2.5 * limit, 1.2 * squares.max()))))
    law = np.zeros(size)
    np.add.at(law, squares, poisson.pmf(x, expected))
    total = np.fft.irfft(np.fft.rfft(law) ** cells, size)
    assert total[int(limit) :].sum() < 1e-7
    plain = chi2.isf(1e-7, cells) * expected
    assert total[int(plain) :].sum() > 1e-7  # without the safety factor it would not hold


def test_the_law_of_sampled_buckets_needs_its_factor() -> None:
    """χ² of one report's buckets is the same whichever they are, hence its mean; of n alike n times that."""
    kind, n = built("dbitflip", 20), 5_000
    counts = np.zeros(40, np.int64)
    counts[20 : 20 + kind.d] = n
    (seeds,) = (one for one in indicators(kind, Support(counts, n)) if one.name == "seeds")
    assert seeds.expected == 19
    assert seeds.observed == pytest.approx(19 * n, rel=1e-12)


# --- attacks that are seen, at the reference setting


def rows(payload: bytes, n: int = FORGED) -> Any:
    return np.tile(np.frombuffer(payload, np.uint8), (n, 1))


def ones(kind: Any, chosen: range) -> bytes:
    return sum(1 << v for v in chosen).to_bytes(kind.device.payload_size, "little")


def with_forged(name: str, payloads: Any, **more: Any) -> set[str]:
    kind = built(name, **more)
    return alarms(kind, add(kind, honest(kind, N, 3), payloads(kind)))


@pytest.mark.parametrize(
    ("name", "more", "payloads", "seen"),
    [
        ("olh", {}, lambda k: rows(k.device.encode(next(k.law.responses()))), "seeds"),
        ("loloha", {"g": 2}, lambda k: rows(k.device.encode(next(k.law.responses()))), "seeds"),
        ("olh", {"hash_family": "affine"}, lambda k: rows(k.family.encode(77 << 50 | 9 << 64, 1)), "seeds"),
        ("loloha", {"hash_family": "affine"}, lambda k: rows(k.family.encode(REACH, 0)), "support_sum"),
        ("oue", {}, lambda k: rows(ones(k, range(k.counter.bits.ones[1]))), "support_sum"),
        ("oue", {}, lambda k: rows(ones(k, range(k.counter.bits.ones[1])), 100), "ones"),
        ("l_osue", {}, lambda k: rows(ones(k, range(10))), "support_sum"),
        ("sue", {}, lambda k: rows(ones(k, range(10))), "ones"),
        ("binflip_plus", {}, lambda k: rows(REACH.to_bytes(16, "little") + b"\1"), "support_sum"),
        ("binflip_plus", {}, lambda k: rows(REACH.to_bytes(16, "little") + b"\1", 500), "seeds"),
        ("dbitflip_pm", {}, lambda k: rows(b"\1\3\5\7"), "seeds"),
    ],
    ids=lambda value: "forged" if callable(value) else str(value),
)
def test_crude_attacks_are_seen(name: str, more: dict[str, Any], payloads: Any, seen: str) -> None:
    assert seen in with_forged(name, payloads, **more)


def test_a_mean_beyond_its_domain_is_seen() -> None:
    kind = protocol("laplace_mean", 1001, Parameters(epsilon=0.1))
    assert isinstance(kind, MeanProtocol)
    forged = rows((kind.estimator.maximum + kind.margin).to_bytes(8, "little", signed=True))  # type: ignore[attr-defined]
    assert alarms(kind, add(kind, honest(kind, N, 3), forged)) == {"range", "extremes"}
    near = PiecewiseMean.from_parameters(1001, Parameters(epsilon=4.0))
    middle = add(near, honest(near, N, 500), rows(near.device.encode(near.instant.size - 1)))
    assert alarms(near, middle) == set()
    lifted = add(near, honest(near, N, 1000), rows(near.device.encode(near.instant.size - 1), 20 * N))
    assert alarms(near, lifted) == {"range"}
    (found,) = indicators(near, lifted)
    assert found.observed == pytest.approx(
        near.estimator.estimate(lifted.counts, lifted.reports).frequency[0]
    )
    assert found.expected == pytest.approx(1000)
    bit = protocol("one_bit_mean", 1001, Parameters(epsilon=1.0))
    zeros = honest(bit, N, 3)
    assert alarms(bit, add(bit, zeros, rows(b"\0", N))) == {"range"}


@pytest.mark.parametrize(("m", "epsilon"), [(1, 0.5), (1, 2.0), (3, 1.0), (7, 4.0), (20, 3.0)])
def test_the_chance_of_much_noise_is_exact_and_holds_for_every_value(m: int, epsilon: float) -> None:
    """By enumeration of all reports: the value at the end has it, and noise of 1 less is likelier."""
    kind = LaplaceMean.from_parameters(m + 1, Parameters(epsilon=epsilon))
    up, down = present(kind.counter.rare_noise)
    first, second = present(kind.counter.extremes)
    beyond = [
        (
            sum(kind.law.likelihood(y, v) for y in range(m + up, m + kind.margin + 1)),
            sum(kind.law.likelihood(y, v) for y in range(-kind.margin, -down + 1)),
        )
        for v in range(m + 1)
    ]
    assert max(above for above, _ in beyond) == beyond[m][0] == kind.instant.above(up) <= RARE
    assert max(below for _, below in beyond) == beyond[0][1] == kind.instant.below(-down) <= RARE
    assert kind.instant.above(up - 1) > RARE < kind.instant.below(1 - down)
    for stated, (exact, _) in ((first, beyond[m]), (second, beyond[0][::-1])):
        assert exact <= Fraction(stated) <= exact * (1 + Fraction(1, 1 << 50))
    # What is counted, of all reports there are.
    every = np.arange(-kind.margin, m + kind.margin + 1).astype("<i8").view(np.uint8).reshape(-1, 8)
    signs = np.zeros(kind.counter.signs_length, np.int64)
    kind.counter.add_signs(every, signs)
    assert signs.tolist() == [kind.margin - up + 1, kind.margin - down + 1]


@pytest.mark.parametrize("n", [1, 1_000, 300_000])
@pytest.mark.parametrize("chances", [(2.0**-15, 2.0**-16), (9.9e-7, 8.7e-7), (0.02, 1e-3)])
@pytest.mark.cases(4)
def test_rare_reports_cause_alarms_no_more_often_than_stated(n: int, chances: tuple[float, float]) -> None:
    """P(p < α) <= α, summed over both counts, for α down to an alarm's; and near it where counts allow."""
    most = int(n * max(chances) + 12 * (n * max(chances)) ** 0.5 + 30)
    counts = np.arange(min(n, most) + 1)
    for level in (0.3, 0.05, 1e-3, 1e-6):
        total = 0.0
        for side, p in enumerate(chances):
            small = [
                _rare_reports("ones", np.array([c, 0][:: 1 - 2 * side]), chances, n, None).p_value < level
                for c in counts.tolist()
            ]
            first = int(np.argmax(small)) if any(small) else n + 1
            assert all(small[first:])
            side_chance = float(binom.sf(first - 1, n, p))
            # One count fewer would be too likely.
            assert first == 0 or 2 * binom.sf(first - 2, n, p) >= level
            total += side_chance
        assert total <= level


BITS = [name for name in PROTOCOLS if built(name).forgery.supported_law is not None]


@pytest.mark.parametrize("name", BITS)
def test_the_law_of_ones_is_that_of_every_value(name: str) -> None:
    """By enumeration of all reports of four values: exact, and the same whatever the device holds."""
    levels = {n: v for n, v in {**LEVELS, "d": 2}.items() if n in PROTOCOLS[name].PARAMETERS}
    kind = frequencies(protocol(name, 4, Parameters(**levels)))
    first, rest, other = present(kind.forgery.supported_law)
    wanted = np.convolve([1 - first, first], binom.pmf(np.arange(rest + 1), rest, other))
    for value in range(4):
        found = np.zeros(wanted.size)
        for response in kind.law.responses():
            supported = sum(kind.law.supports(response, v) for v in range(4))
            found[supported] += float(kind.law.likelihood(response, value)) / comb(
                4, kind.forgery.asked_about
            )
        assert found.sum() == pytest.approx(1, abs=1e-12)
        assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("name", "k", "n"), [("oue", 100, 300), ("sue", 7, 2_000), ("dbitflip", 20, 900)])
def test_the_sum_of_supports_has_its_exact_tails(name: str, k: int, n: int) -> None:
    """The law of the sum by convolution: P(p < α) <= α, and above α/2 (an attainable one) at every level."""
    kind = built(name, k)
    law = kind.forgery.supported_law
    own = binom.pmf(np.arange(n + 1), n, law.first)
    rest = binom.pmf(np.arange(n * law.rest + 1), n * law.rest, law.other)
    exact = np.convolve(own, rest)
    up, down = exact[::-1].cumsum()[::-1], exact.cumsum()
    middle = int(np.argmax(exact))
    spread = int(7 * (n * kind.forgery.supported_variance) ** 0.5)
    sums = np.arange(max(middle - spread, 0), min(middle + spread, exact.size))
    found = np.array([_two_sided(int(s), n, law) for s in sums])
    wanted = np.minimum(1.0, 2 * np.minimum(up, down))[sums]
    assert (found >= wanted * (1 - 1e-9)).all()
    kept = wanted > 1e-9
    assert found[kept] == pytest.approx(wanted[kept], rel=1e-4)
    for level in (0.05, 0.01, 1e-3, 1e-6):
        chance = exact[sums][found < level].sum()
        assert 0.6 * level < chance <= level


def test_attributes_that_are_not_drawn_evenly_are_seen() -> None:
    kind = allocate("sample", "grr", (5, 5, 5), Parameters(epsilon=1.0))
    support = Support.zero_of(kind.counter)
    even = np.arange(30_000) % 3
    payloads = np.stack([even, np.arange(30_000) // 3 % 5], axis=1).astype(np.uint8)
    assert "seeds" not in alarms(kind, add(kind, support, payloads))
    assert "seeds" in alarms(kind, add(kind, support, rows(b"\1\2")))


def test_conflicting_ids_are_seen() -> None:
    kind = built("grr")
    support = honest(kind, 1_000, 1)
    line = Account()
    assert not any(one.alarm for one in indicators(kind, support, line))
    line.rejected["conflicting_report_id"] = 1
    (seen,) = (one for one in indicators(kind, support, line) if one.alarm)
    assert (seen.name, seen.observed) == ("conflicts", 1)
    # Among 2³² reports one conflict is what chance brings.
    support.reports = 1 << 32
    (quiet,) = (one for one in indicators(kind, support, line) if one.name == "conflicts")
    assert quiet.p_value > 0.1
    assert not quiet.alarm
    # The share of false alarms is that of all indicators of a result together.
    support.reports = 5_000_000
    (near,) = (one for one in indicators(kind, support, line) if one.name == "conflicts")
    assert FALSE_ALARM / 2 < near.p_value < FALSE_ALARM
    assert not near.alarm


# --- attacks that are not: what docs/poisoning.md admits


# --- integers that merge


def extremes_of(kind: Any) -> tuple[int, int]:
    from ldpbeam.channels.degenerate import extremes

    return extremes(kind.domain_size, kind.estimator.support)[0]


@pytest.mark.parametrize(("name", "more"), CASES, ids=str)
def test_signs_merge_by_addition_and_travel(name: str, more: dict[str, Any]) -> None:
    kind = built(name, **more)
    fleet = ProtocolFleet(kind, 3_000, RandomWords(2))
    batches = [b.payloads for b in fleet.reports(0, np.zeros(3_000, np.int32))]
    whole = np.concatenate(batches)
    one = add(kind, Support.zero_of(kind.counter), whole)
    shuffled = whole[np.random.default_rng(1).permutation(3_000)]
    coder, merged = SupportCoder(), Support.zero_of(kind.counter)
    for part in np.array_split(shuffled, 7):
        some = add(kind, Support.zero_of(kind.counter), part)
        merged.merge(coder.decode(coder.encode(some)))
    assert merged == one
    assert indicators(kind, merged) == indicators(kind, one)
    if kind.counter.signs_length == 2 and name != "laplace_mean":
        (few, many), count = extremes_of(kind), np.unpackbits(whole, axis=1).sum(axis=1)
        assert one.signs.tolist() == [int((count >= many).sum()), int((count <= few).sum())]


def test_prefix_lengths_are_expected_by_their_weights() -> None:
    """Honest lengths raise no alarm though they are uneven, forged ones of one length do."""
    strings = Strings.of(8, ALPHABETS["lower"])
    kind = of_strings("olh", strings, Parameters(epsilon=2.0))
    fleet = ProtocolFleet(kind, 20_000, RandomWords(8))
    held = np.full((20_000, len(strings.lengths)), 77, np.int64)
    support = Support.zero_of(kind.counter)
    for drawn in fleet.reports(0, held):
        add(kind, support, drawn.payloads)
    (lengths, *functions) = indicators(kind, support)
    assert lengths.name == "seeds"
    assert lengths.expected == len(strings.lengths) - 1
    assert len(functions) == len(strings.lengths)
    assert all(one.attribute is None and not one.alarm for one in (lengths, *functions))
    support.counts[len(strings.lengths) - 1] += 1_000
    support.reports += 1_000
    assert indicators(kind, support)[0].alarm
