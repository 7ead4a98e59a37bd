"""Laws that every protocol in the table obeys, whatever its parameters: exact, nothing sampled.

A protocol added to ``ldpbeam.protocols`` is picked up unedited.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import compress, product
from operator import mul
from struct import unpack
from typing import Any

import numpy as np
import pytest

from ldpbeam.channels.calibration import Calibration
from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.channels.exact import exp_below
from ldpbeam.errors import InvalidPayload
from ldpbeam.hashing import IntervalFamily, LinearFamily
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols import PROTOCOLS, FrequencyProtocol, LocalProtocol, Memo
from ldpbeam.protocols.contract import SupportProtocol
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, WordSpec
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import Support
from tests.conftest import REPOSITORY
from tests.narrow import present
from tests.narrow import supporting as narrowed
from tests.reference.channels import (
    channel,
    enumerable,
    first_answer,
    first_rows,
    memos,
    over_one_denominator,
    weighted_responses,
    worst_ratio,
)
from tests.reference.device_law import branches, every_outcome, first_reports
from tests.reference.random_words import randomised
from tests.reference.script import ScriptedRandomness
from tests.reference.settings import (
    FrequencySetting,
    Setting,
    frequency_settings,
    settings,
    supporting_settings,
)


def law(some: Sequence[Setting]) -> pytest.MarkDecorator:
    """A law about settings."""
    return pytest.mark.parametrize("setting", some, ids=str)


SIZES = (2, 8, 9)
"""Two values, full bytes and one value more."""
every = law(settings(SIZES))
# Laws about own and other, and about rounds that are symbols or bits of values; means have theirs in
# tests/ldpbeam/protocols/test_means.py.
frequency = law(frequency_settings(SIZES))
# Of protocols that estimate a distribution, not each value.
distributed = law([s for s in supporting_settings(SIZES) if not isinstance(s.build(), FrequencyProtocol)])
listed = law([s for s in frequency_settings(SIZES) if enumerable(s.build())])
# Trees of words grow as 25^k for two unary rounds.
small = pytest.mark.parametrize(
    "setting",
    [s for s in frequency_settings((2, 3)) if s.domain_size == 2 or not s.unary],
    ids=str,
)
wide = pytest.mark.parametrize("setting", settings((9, 300)), ids=str)


def two_rounds(built: LocalProtocol[Any]) -> bool:
    return built.guarantee.memoised_ratio is not None


UNEVEN = Fraction(1, 1 << 56)
"""How far the chances of sets of buckets may lie apart, which are drawn by multiplying words."""

MOST_RUNS = 1100
"""Of device code for one value: two unary rounds over 5 values, one over 10."""

EXACT = [
    s
    for s in settings((2, 5, 9))
    # Laplace noise has its own in tests/ldpbeam/protocols/test_means.py. Of the interval family's
    # 64 functions one calibration is enough: another one has other weights, and the same code.
    if not isinstance(tried := s.build(), LaplaceMean)
    and branches(tried) <= MOST_RUNS
    and (s.parameters.hash_family, s.parameters.calibration) != (IntervalFamily.NAME, Calibration.PUBLISHED)
]
TWICE = [s for s in EXACT if branches(s.build()) ** 2 <= 2 * MOST_RUNS]


def random_payloads(built: LocalProtocol[Any], n: int, seed: int = 1) -> np.ndarray:
    """Sound payloads: uniform over what ``decode`` takes, where many are sound, else what devices send."""
    draw = random.Random(seed)
    many = np.frombuffer(draw.randbytes(n * built.device.payload_size), np.uint8).reshape(n, -1).copy()
    many[:, -1] &= 0xFF >> (-built.device.payload_bits % 8)
    sound = built.counter.check(many) == 0
    for row in np.flatnonzero(~sound):
        # A device's report takes the place of bytes that no device sends: of ascending buckets, of sets of
        # a few values, of few ones in large domains hardly any bytes are sound.
        words = Recording(draw.getrandbits(64))
        value = draw.randrange(built.domain_size)
        sent = built.device.encode(first_answer(built, value, built.device.new_memo(words), words))
        many[row] = np.frombuffer(sent, np.uint8)
    return many


class Recording(Randomness):
    """Seeded randomness that notes the limit of every word it gave."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.limits: list[int] = []

    def word(self, limit: int = FULL) -> int:
        self.limits.append(limit)
        return self._random.randrange(limit)

    def words(self, count: int) -> Sequence[int]:
        self.limits += [FULL] * count
        return unpack(f"<{count}Q", self._random.randbytes(8 * count))


# The table


def test_names_and_ids_are_unique_and_listed_under_their_name() -> None:
    assert [kind.NAME for kind in PROTOCOLS.values()] == list(PROTOCOLS)
    assert len({kind.ID for kind in PROTOCOLS.values()}) == len(PROTOCOLS)


# Privacy


@every
def test_rows_of_the_channel_sum_to_one(setting: Setting) -> None:
    """``likelihood`` is a probability distribution over what a device can send."""
    built = setting.build()
    assert [sum(row) for row in channel(built)] == [Fraction(1)] * setting.domain_size


@every
def test_worst_ratio_of_a_first_report_is_the_guarantee_and_below_nominal(setting: Setting) -> None:
    built = setting.build()
    if isinstance(built, LaplaceMean):
        assert 1 <= built.guarantee.first_ratio / worst_ratio(channel(built)) < 1 + Fraction(1, 10**9)
    else:
        assert worst_ratio(channel(built)) == built.guarantee.first_ratio
    assert built.guarantee.first_ratio <= exp_below(setting.nominal_first)


@law([s for s in EXACT if two_rounds(s.build())])
@pytest.mark.cases(40)
def test_permanent_round_stays_below_the_longitudinal_level(setting: Setting) -> None:
    built = setting.build()
    worst = max(worst_ratio(first_rows(built, memo.seed)) for memo in memos(built)[:8])
    known = present(built.guarantee.memoised_ratio)
    # A function may reach too few symbols, and an α bring values too near, to show the worst ratio.
    assert worst == known or (worst < known and memos(built)[0].seed is not None)
    assert setting.parameters.epsilon_longitudinal is not None
    assert known <= exp_below(setting.parameters.epsilon_longitudinal)


@pytest.mark.parametrize("setting", EXACT, ids=str)
@pytest.mark.cases(36)
def test_the_device_code_has_exactly_the_stated_distribution(setting: Setting) -> None:
    built = setting.build()
    drawn: dict[Any, Fraction] = {}
    for value in range(setting.domain_size):
        found = first_reports(built, value)
        seeds: dict[Any, Fraction] = defaultdict(Fraction)
        for response, probability in found.law.items():
            seeds[getattr(response, "seed", None)] += probability
        for response, probability in found.law.items():
            stated = built.law.likelihood(response, value)
            assert probability == stated * seeds[getattr(response, "seed", None)], response
        assert seeds == (drawn or seeds)
        drawn = dict(seeds)
        if found.complete and enumerates(built):
            assert set(found.law) == set(built.law.responses())


@pytest.mark.parametrize("setting", TWICE, ids=str)
def test_two_reports_have_the_law_of_the_model(setting: Setting) -> None:
    built, last = setting.build(), setting.domain_size - 1
    model = built.law.model((0, last))

    @cache
    def first(value: int) -> tuple[dict[Any, Fraction], bool]:
        """The law of (stratum, symbol), memo."""
        found = every_outcome(
            lambda randomness: built.device.privatize(value, built.device.new_memo(randomness), randomness)
        )
        return summed(((model.place(said), memo), p) for (said, memo), p in found.law.items()), found.complete

    @cache
    def second(memo: Any, value: int) -> tuple[dict[Any, Fraction], bool]:
        """The law of (stratum, symbol) of a device that has the memo."""
        seed, answers = memo
        found = every_outcome(
            lambda randomness: built.device.privatize(value, Memo(seed, dict(answers)), randomness)[0], seed=1
        )
        return summed((model.place(said), p) for said, p in found.law.items()), found.complete

    for pattern in ((0, 0), (0, 1), (1, 1)):
        law, complete = first(last * pattern[0])
        cells: dict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
        for ((stratum, symbol), memo), probability in law.items():
            again, whole_law = second(memo, last * pattern[1])
            complete &= whole_law
            for (same, other), conditional in again.items():
                assert stratum == same, "what is drawn for life changed"
                cells[stratum, symbol, other] += probability * conditional
        if not complete and not model.memoised:
            continue  # fresh functions of which one stands for all: the strata are part of the symbols
        whole = summed((stratum, probability) for (stratum, *_), probability in cells.items())
        for number, kind in enumerate(model.strata):
            if complete:
                assert abs(whole.get(number, 0) - kind.probability) <= UNEVEN
            for symbols in product(range(kind.symbols), repeat=2):
                stated = kind.history(pattern, symbols)
                assert abs(cells[number, *symbols] - whole.get(number, 0) * stated) <= UNEVEN, (
                    number,
                    symbols,
                )


def summed(some: Iterable[tuple[Any, Fraction]]) -> dict[Any, Fraction]:
    """The probabilities of equal outcomes, added up."""
    found: dict[Any, Fraction] = defaultdict(Fraction)
    for outcome, probability in some:
        found[outcome] += probability
    return dict(found)


def enumerates(built: LocalProtocol[Any]) -> bool:
    """Whether the protocol can list its responses."""
    try:
        built.law.responses()
    except NotImplementedError:
        return False
    return True


def test_the_exact_laws_reach_every_part_of_every_protocol() -> None:
    reached: dict[str, set[str]] = defaultdict(set)
    for setting in EXACT:
        reached[setting.name] |= set(parts_alive(setting.build()))
    for setting in settings((64,)):
        built = setting.build()
        if not isinstance(built, LaplaceMean):
            wanted = set(parts_alive(built))
            assert wanted <= reached[setting.name], f"no exact law of {setting.name} has {wanted}"


def parts_alive(built: LocalProtocol[Any]) -> Iterator[str]:
    """Steps that a device repeats in a report, and has choices left in."""
    plan = built.simulation.word_plan
    for name in ("seed", "permanent", "instant"):
        spec = getattr(plan, name)
        # Words of a hash function are few whatever the domain is; bits of a report are many.
        if spec is not None and spec.count > 1 and (spec.bits or spec.count + 2 <= built.domain_size):
            yield name


@pytest.mark.parametrize("keep,each,size", [(5, 2, 3), (7, 7, 4), (11, 1, 2), (3, 1, 9)])
def test_symbol_draws_partition_the_words(keep: int, each: int, size: int) -> None:
    drawn = SymbolChannel(size, keep, each)
    words = np.arange(drawn.total, dtype=np.uint64)
    for symbol in range(size):
        results = [drawn.draw(symbol, ScriptedRandomness([w])) for w in range(drawn.total)]
        expected = [keep if s == symbol else each for s in range(size)]
        assert [results.count(s) for s in range(size)] == expected
        many = drawn.draw_many(np.full(words.size, symbol, np.int64), words)
        assert many.tolist() == results


# Estimation


def supporters(built: SupportProtocol[Any]) -> Iterator[list[bool]]:
    """For each value, which of the responses support it."""
    responses = weighted_responses(built)
    for value in range(built.domain_size):
        yield [built.law.supports(response, value) for response, _ in responses]


@listed
def test_own_and_other_are_the_enumerated_support_probabilities(setting: FrequencySetting) -> None:
    built = setting.build()
    support = built.estimator.support
    rows, whole = over_one_denominator(channel(built))
    for value, supporting in enumerate(supporters(built)):
        for held, row in enumerate(rows):
            probability = Fraction(sum(compress(row, supporting)), whole)
            asked = support.own if held == value else support.other
            assert probability == support.sampled * asked


@distributed
def test_every_value_is_supported_with_the_stated_probability(setting: Setting) -> None:
    built = narrowed(setting.build())
    rows, whole = over_one_denominator(channel(built))
    for value, supports in enumerate(supporters(built)):
        for held, row in enumerate(rows):
            assert built.supported(value, held) == Fraction(sum(compress(row, supports)), whole)


@listed
def test_the_estimator_is_unbiased_in_rational_arithmetic(setting: FrequencySetting) -> None:
    built = setting.build()
    k = setting.domain_size
    holders = [(3 * v * v + 1) % 7 + (v == 0) * 11 for v in range(k)]
    n = sum(holders)
    rows, whole = over_one_denominator(channel(built))
    for value, supporting in enumerate(supporters(built)):
        supported = [sum(compress(row, supporting)) for row in rows]
        expected = Fraction(sum(map(mul, holders, supported)), whole)
        behind = n * built.estimator.support.sampled
        estimate = (expected / behind - built.estimator.support.other) / built.estimator.support.gap
        assert estimate == Fraction(holders[value], n)


# Server


@wide
def test_merge_is_commutative_associative_and_batches_do_not_matter(setting: Setting) -> None:
    built = setting.build()
    # Devices are slow; kernels that count in blocks of 256 see more than one.
    payloads = np.tile(random_payloads(built, 240), (3, 1))

    def count(rows: np.ndarray) -> Support:
        support = Support.zero(built.counter.counts_length)
        built.counter.add(rows, support.counts)
        support.reports = len(rows)
        return support

    whole = count(payloads)
    parts = [payloads[:3], payloads[3:3], payloads[3:500], payloads[500:]]
    left = count(parts[0])
    for part in parts[1:]:
        left.merge(count(part))
    right = count(parts[3])
    right.merge(count(parts[2]).merge(count(parts[1]).merge(count(parts[0]))))
    assert left == whole == right
    grown = Support.zero(built.counter.counts_length)
    for part in parts:
        built.counter.add(part, grown.counts)
        grown.reports += len(part)
    assert grown == whole
    prefilled = np.arange(built.counter.counts_length, dtype=np.int64)
    built.counter.add(payloads, prefilled)
    assert np.array_equal(prefilled - np.arange(built.counter.counts_length), whole.counts)
    shuffled = payloads[np.random.default_rng(5).permutation(len(payloads))]
    assert count(shuffled) == whole
    # The transform of a sum is the sum of the transforms, and leaves the accumulator alone.
    before = whole.counts.copy()
    total = built.counter.support_counts(whole.counts)
    assert np.array_equal(before, whole.counts)
    assert np.array_equal(total, sum(built.counter.support_counts(count(p).counts) for p in parts))


@wide
def test_accumulators_take_any_layout(setting: Setting) -> None:
    built = setting.build()
    payloads = random_payloads(built, 64)
    expected = np.zeros(built.counter.counts_length, np.int64)
    built.counter.add(payloads, expected)
    for rows in (np.asfortranarray(payloads), np.repeat(payloads, 2, axis=0)[::2], payloads[::-1]):
        counts = np.zeros(built.counter.counts_length, np.int64)
        assert not built.counter.check(rows).any()
        built.counter.add(rows, counts)
        assert np.array_equal(counts, expected)


@every
def test_payloads_round_trip(setting: Setting) -> None:
    built = setting.build()
    responses = weighted_responses(built)
    payloads = {built.device.encode(response) for response, _ in responses}
    assert {len(payload) for payload in payloads} == {built.device.payload_size}
    assert len(payloads) == len(responses)
    for response, _ in responses:
        assert built.device.decode(built.device.encode(response)) == response


@pytest.mark.cases(61)
@pytest.mark.parametrize("setting", settings((2, 3, 8, 9, 300)), ids=str)
def test_decode_and_check_agree_on_every_payload(setting: Setting) -> None:
    built = setting.build()
    size = built.device.payload_size
    if size <= 2:
        payloads = np.arange(256**size, dtype="<u2").view(np.uint8).reshape(-1, 2)[:, :size]
    else:
        payloads = np.frombuffer(random.Random(9).randbytes(3000 * size), np.uint8)
        payloads = payloads.reshape(3000, size).copy()
        payloads[1500:, -1] &= 1
        payloads[2500:, 16:] = 0
        payloads[2400:2500] = random_payloads(built, 100)
    codes = built.counter.check(payloads)
    assert codes.dtype == np.uint8
    sound = 0
    for code, row in zip(codes.tolist(), payloads, strict=True):
        try:
            response = built.device.decode(row.tobytes())
        except InvalidPayload as error:
            assert CheckCode(code).reason is error.reason
        else:
            assert code == 0
            sound += 1
            if sound <= 300:
                assert built.device.encode(response) == row.tobytes()
    assert sound


@every
def test_decode_refuses_every_other_length(setting: Setting) -> None:
    built = setting.build()
    for length in {0, built.device.payload_size - 1, built.device.payload_size + 1, 100} - {
        built.device.payload_size
    }:
        with pytest.raises(InvalidPayload) as caught:
            built.device.decode(b"\xa5" * length)
        assert caught.value.reason.value == "wrong_length"
        assert "a5" not in str(caught.value)


# Device


@every
def test_the_number_of_words_does_not_depend_on_the_value(setting: Setting) -> None:
    built = setting.build()
    fresh: set[tuple[int, ...]] = set()
    again: set[tuple[int, ...]] = set()
    for value in range(setting.domain_size):
        for seed in range(5):
            memo = built.device.new_memo(Recording(seed))
            first, second = Recording(seed), Recording(seed + 100)
            _, memo = built.device.privatize(value, memo, first)
            built.device.privatize(value, memo, second)
            fresh.add(tuple(first.limits))
            again.add(tuple(second.limits))
    assert len(fresh) == len(again) == 1
    words = built.simulation.word_plan.instant
    if two_rounds(built):
        assert built.simulation.word_plan.permanent is not None
        expected = [built.simulation.word_plan.permanent, words]
    else:
        expected = (
            [words] if built.simulation.word_plan.seed is None else [built.simulation.word_plan.seed, words]
        )
    assert list(fresh.pop()) == [limit for spec in expected for limit in spec.limits]


@every
def test_the_memo_is_the_same_object_when_nothing_is_new(setting: Setting) -> None:
    built = setting.build()
    randomness = Recording(4)
    memo = built.device.new_memo(randomness)
    for value in range(setting.domain_size):
        before = dict(memo.answers)
        _, after = built.device.privatize(value, memo, randomness)
        assert dict(memo.answers) == before
        _, again = built.device.privatize(value, after, randomness)
        assert again is after
        memo = after
    if two_rounds(built):
        assert built.guarantee.memoised_inputs is not None
        assert 1 <= len(memo.answers) <= built.guarantee.memoised_inputs
    else:
        assert not memo.answers and memo.seed is None


@every
def test_values_outside_the_domain_are_refused_without_being_named(setting: Setting) -> None:
    built = setting.build()
    for value in (-1, setting.domain_size, 987654321):
        with pytest.raises(ValueError, match="domain of size") as caught:
            built.device.privatize(value, built.device.new_memo(Recording(1)), Recording(1))
        assert "987654321" not in str(caught.value)


@every
def test_protocols_pickle_small_and_equal(setting: Setting) -> None:
    built = setting.build()
    if isinstance(built, FrequencyProtocol):
        assert built.estimator.support.own > built.estimator.support.other
    data = pickle.dumps(built)
    assert len(data) < 2000
    assert pickle.loads(data) == built == setting.build()
    assert hash(built) == hash(pickle.loads(data))


def test_memos_do_not_print_their_answers() -> None:
    assert "771" not in repr(Memo(771, {771: 771}))


DEVICE = """
import sys
from ldpbeam.protocols import PROTOCOLS
from ldpbeam.randomness import SystemRandomness
from tests.reference.settings import settings
randomness = SystemRandomness()
for setting in settings((2, 9)):
    built = setting.build()
    memo = built.device.new_memo(randomness)
    for value in (0, 1, 1):
        response, memo = built.device.privatize(value, memo, randomness)
        assert built.device.decode(built.device.encode(response)) == response
        built.guarantee.first_report, built.law.likelihood(response, 1)
        built.estimator.support
heavy = {"numpy", "numba", "scipy", "yaml", "apache_beam"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_device_path_imports_no_numpy() -> None:
    run = subprocess.run(
        [sys.executable, "-c", DEVICE], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


# Simulation


class Words(FleetWords):
    """Seeded words for a fleet; equal calls give equal words, as the contract asks."""

    def __init__(self, n: int, seed: int) -> None:
        self._n = n
        self._seed = seed

    def _words(self, stream: int, spec: WordSpec) -> np.ndarray:
        draw = random.Random(f"{self._seed}/{stream}")
        rows = [[draw.randrange(limit) for limit in spec.limits] for _ in range(self._n)]
        return np.array(rows, np.uint64)

    def seed(self, spec: WordSpec) -> np.ndarray:
        return self._words(0, spec)

    def permanent(self, spec: WordSpec) -> np.ndarray:
        return self._words(1, spec)

    def instant(self, spec: WordSpec) -> np.ndarray:
        return self._words(2, spec)

    def permanent_bits(
        self, held: np.ndarray, rows: np.ndarray, spec: WordSpec, channel: BitChannel
    ) -> np.ndarray:
        return randomised(held, self.permanent(spec)[rows], channel)

    def instant_bits(self, held: np.ndarray, spec: WordSpec, channel: BitChannel) -> np.ndarray:
        return randomised(held, self.instant(spec), channel)

    def part(self, index: int, rows: np.ndarray | None = None) -> FleetWords:
        raise NotImplementedError("one attribute only")


class Remembering(FleetAnswers):
    """A fleet's memo as a dictionary."""

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}

    def recall(self, keys: np.ndarray, draw: Any) -> np.ndarray:
        new = np.array([i for i, key in enumerate(keys.tolist()) if key not in self.answers], np.int64)
        if new.size:
            self.answers |= dict(zip(keys[new].tolist(), draw(new), strict=True))
        return np.array([self.answers[key] for key in keys.tolist()])

    def part(self, index: int) -> FleetAnswers:
        raise NotImplementedError("one attribute only")


@pytest.mark.cases(55)
@pytest.mark.parametrize("setting", settings((2, 9, 70)), ids=str)
def test_a_simulated_fleet_is_many_devices(setting: Setting) -> None:
    built = setting.build()
    n = 40
    devices = np.arange(n, dtype=np.int64)
    fleet = Remembering()
    seeds = Words(n, 0)
    spec = built.simulation.word_plan.seed
    lifetime = seeds.seed(spec).tolist() if spec is not None else [[]] * n
    held = [
        built.device.new_memo(
            ScriptedRandomness([] if built.simulation.word_plan.seed_per_report else lifetime[i])
        )
        for i in range(n)
    ]
    for epoch, multiplier in enumerate((1, 1, 3)):
        values = (devices * multiplier) % setting.domain_size
        words = Words(n, epoch)
        if not built.simulation.word_plan.seed_per_report:
            words.seed = seeds.seed  # type: ignore[method-assign]
        payloads = built.simulation.privatize(devices, values, words, fleet)
        assert payloads.shape == (n, built.device.payload_size)
        instant = words.instant(built.simulation.word_plan.instant).tolist()
        once = built.simulation.word_plan.permanent
        permanent = words.permanent(once).tolist() if once is not None else [[]] * n
        fresh = (
            words.seed(spec).tolist()
            if spec is not None and built.simulation.word_plan.seed_per_report
            else [[]] * n
        )
        for i, value in enumerate(values.tolist()):
            script = ScriptedRandomness([*fresh[i], *permanent[i], *instant[i]])
            response, held[i] = built.device.privatize(value, held[i], script)
            assert script.exhausted()
            assert built.device.encode(response) == payloads[i].tobytes()


# Facts of the hash families


@pytest.mark.parametrize(
    ("g", "size"), [(2, 1 << 27), (3, 1 << 24), (7, 1 << 20), (101, 10**6), (509, 509), (16381, 16381)]
)
def test_many_linear_hashes_are_the_single_ones(g: int, size: int) -> None:
    family = LinearFamily(g, size)
    draw = np.random.default_rng(1)
    ends = [1, 2, g - 1, g, g + 1, family.points // g, family.points - 1]
    seeds = np.array(ends * 7 + draw.integers(1, family.points, 200).tolist())
    values = np.array(sorted(ends * 7) + draw.integers(0, size, 200).tolist()) % size
    many = family.hash_many(seeds.astype(np.uint64), values)
    pairs = zip(seeds.tolist(), values.tolist(), strict=True)
    assert many.tolist() == [family.hash(seed, value) for seed, value in pairs]
    # Multiples of the number of seeds are where a quotient that is a little too small shows.
    top = family.word_limit // (family.points - 1)
    words = [q * (family.points - 1) + step for q in (1, 2, top // 2, top - 1) for step in (-1, 0, 1)]
    columns = family.seed_columns(np.array([[word] for word in words], np.uint64))
    assert columns.tolist() == [family.seed([word]) for word in words]


@pytest.mark.parametrize("g,size", list(product((2, 3, 5), (2, 3, 4, 5, 9, 16))))
def test_linear_collisions_are_exact_for_every_pair(g: int, size: int) -> None:
    family = LinearFamily(g, size)
    seeds = list(family.seeds())
    for v in range(size):
        for w in range(v):
            same = sum(family.hash(s, v) == family.hash(s, w) for s in seeds)
            assert Fraction(same, len(seeds)) == family.collision
