"""Leverage: what one forged report can do, against every response there is and against real estimates."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import ldpbeam
from ldpbeam.errors import InvalidPayload
from ldpbeam.indicators import indicators
from ldpbeam.planning.ordered_errors import leverage_of_sum
from ldpbeam.planning.strings import smallest_found
from ldpbeam.promise.poisoning import TARGETS, leverage, leverage_record
from ldpbeam.protocols import PROTOCOLS, FrequencyProtocol, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import allocate
from ldpbeam.protocols.attributes.sample import AttributeResponse
from ldpbeam.protocols.bit_flip import BitFlip, BucketBits
from ldpbeam.protocols.contract import MeanProtocol
from ldpbeam.protocols.direct import Direct
from ldpbeam.protocols.hashed import Hashed
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.prefixes import Prefixes
from ldpbeam.protocols.public_string import BinFlipPlus
from ldpbeam.protocols.subset import Subset
from ldpbeam.protocols.unary import Unary
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.support import Support
from tests.narrow import present
from tests.reference.settings import Setting, frequency_settings

LEVELS: dict[str, Any] = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0, "d": 4}
HONEST, FORGED, K = 20_000, 200, 100


def built(name: str, k: int = K, **more: Any) -> Any:
    takes = PROTOCOLS[name].PARAMETERS
    return protocol(name, k, Parameters(**{n: v for n, v in LEVELS.items() if n in takes}, **more))


CASES = [
    (name, family)
    for name, kind in PROTOCOLS.items()
    if issubclass(kind, Direct | Unary | BitFlip | LocalHash | BinFlipPlus | Subset | MeanProtocol)
    for family in (("linear", "affine") if "hash_family" in kind.OPTIONAL else ("",))
]


def kinds(name: str, family: str) -> Any:
    return built(name, hash_family=family) if family else built(name)


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "setting", [s for s in frequency_settings((2, 5, 11), epsilon=1.0) if "affine" not in str(s)], ids=str
)
def test_no_admitted_report_does_more_and_one_does_as_much(setting: Setting) -> None:
    """By enumeration of all responses that can be enumerated, for one value and for the best ten."""
    kind: Any = setting.build()
    try:
        responses = list(kind.law.responses())
    except NotImplementedError:
        return
    stated = leverage(kind)
    support = kind.estimator.support
    weight = 1 / support.sampled
    ups, downs, tens = [], [], []
    places = np.arange(kind.domain_size, dtype=float)
    sums = {"mean": places - places.mean(), "lower half": (places < kind.domain_size // 2) - 0.0}
    sums["lower half"] -= sums["lower half"].mean()
    sums["upper half"] = -sums["lower half"]
    moved = dict.fromkeys(sums, 0.0)
    for response in responses:
        try:
            kind.device.decode(kind.device.encode(response))
        except InvalidPayload:
            continue
        spoken = response.indices if isinstance(response, BucketBits) else range(kind.domain_size)
        moves = [weight * (kind.law.supports(response, v) - support.other) / support.gap for v in spoken]
        ups.append(max(moves))
        downs.append(-min(moves))
        tens.append(sum(sorted(moves, reverse=True)[:TARGETS]))
        for name, weights in sums.items():
            by_report = float(sum(weights[v] * move for v, move in zip(spoken, moves, strict=True)))
            moved[name] = max(moved[name], abs(by_report))
    assert float(max(ups)) == pytest.approx(stated.one_value, rel=1e-12)
    assert float(max(tens)) == pytest.approx(stated.ten_values, rel=1e-12)
    if kind.domain_size > 2 and not (isinstance(kind, BitFlip | LocalHash)):
        assert float(max(downs)) == pytest.approx(stated.one_value_down, rel=1e-12)
    assert float(max(downs)) <= stated.one_value_down * (1 + 1e-12)
    for name, weights in sums.items():
        most = leverage_of_sum(kind, weights)
        assert moved[name] <= most * (1 + 1e-12), name
        if isinstance(kind, Direct | Unary | BitFlip):
            assert moved[name] == pytest.approx(most), name


def forge(kind: Any, targets: list[int]) -> bytes:  # noqa: PLR0911 - one per kind
    """A payload that is admitted and supports as many of the targets as one can."""
    if isinstance(kind, Direct):
        return kind.device.encode(targets[0])
    if isinstance(kind, Subset):
        others = [v for v in range(kind.domain_size) if v not in targets]
        return kind.device.encode(sum(1 << v for v in (targets + others)[: kind.w]))
    if isinstance(kind, Unary):
        return kind.device.encode(sum(1 << v for v in targets))
    if isinstance(kind, BitFlip):
        if kind.d == kind.domain_size:
            return kind.device.encode(BucketBits(kind.device.sampled_set(None), sum(1 << v for v in targets)))
        others = [v for v in range(kind.domain_size) if v not in targets]
        chosen = sorted((targets + others)[: kind.d])
        return kind.device.encode(
            BucketBits(tuple(chosen), sum((v in targets) << i for i, v in enumerate(chosen)))
        )
    if isinstance(kind, LocalHash) and kind.family.NAME == "linear":
        return max(
            (kind.device.encode(r) for r in kind.law.responses()),
            key=lambda p: sum(kind.law.supports(kind.device.decode(p), v) for v in targets),
        )
    if isinstance(kind, LocalHash):
        return kind.family.encode(1 << 13 | 5 << 64, 0)
    if kind.NAME == "binflip_plus":
        return (1 << 13 | 5 << 64).to_bytes(16, "little") + b"\x01"
    if kind.NAME == "laplace_mean":
        return kind.device.encode(kind.estimator.maximum + kind.margin)
    if kind.NAME == "piecewise_mean":
        return kind.device.encode(kind.instant.size - 1)
    return kind.device.encode(1)


@pytest.mark.parametrize(("name", "family"), CASES)
def test_theory_is_what_forged_reports_do(name: str, family: str) -> None:
    """1 % forged reports beside a fleet, through check and estimate: their leverage, diluted, and no more."""
    kind = kinds(name, family)
    draw = np.random.default_rng(3)
    values = np.minimum(draw.zipf(1.5, HONEST) - 1, K - 1).astype(np.int32)
    counts = np.zeros(kind.counter.counts_length, np.int64)
    for batch in ProtocolFleet(kind, HONEST, RandomWords(4)).reports(0, values):
        kind.counter.add(batch.payloads, counts)
    before = kind.estimator.estimate(counts, HONEST)
    # Values of the forger's choice: for the linear family ten of one class.
    targets = list(range(10)) if family == "linear" else random.Random(1).sample(range(K), 10)
    if family == "linear":
        step = kind.family.points // kind.family.g
        targets = [v for v in range(K) if v < step][:10]
    payload = forge(kind, targets)
    rows = np.tile(np.frombuffer(payload, np.uint8), (FORGED, 1))
    assert not kind.counter.check(rows).any()
    counts = counts.copy()
    kind.counter.add(rows, counts)
    after = kind.estimator.estimate(counts, HONEST + FORGED)
    stated = leverage(kind)
    if isinstance(kind, MeanProtocol):
        up, behind, where = stated.one_value * kind.estimator.maximum, np.array([HONEST]), [0]
    else:
        up, behind = stated.one_value * float(kind.estimator.support.sampled), before.n
        response = kind.device.decode(payload)
        where = [v for v in targets if kind.law.supports(response, v)]
        assert len(where) == min(10, present(stated.values_supported_at_most))
    for v in where:
        theory = FORGED * (up - before.frequency[v]) / (behind[v] + FORGED)
        found = after.frequency[v] - before.frequency[v]
        assert found == pytest.approx(theory, rel=1e-9)
        wrong = FORGED * (1.01 * up - before.frequency[v]) / (behind[v] + FORGED)
        assert found != pytest.approx(wrong, rel=1e-3)
    if isinstance(kind, FrequencyProtocol) and kind.estimator.support.sampled == 1:
        moved = sum(after.frequency[v] - before.frequency[v] for v in targets)
        total = sum(before.frequency[v] for v in targets)
        theory = FORGED * (stated.ten_values - total) / (HONEST + FORGED)
        assert moved == pytest.approx(theory, rel=1e-9)


def test_of_a_sampled_attribute_each_report_weighs_more() -> None:
    sizes, parameters = (100, 20, 5), Parameters(epsilon=1.0)
    sample, split = (leverage_record(allocate(how, "grr", sizes, parameters)) for how in ("sample", "split"))
    alone = [leverage(protocol("grr", k, parameters)).one_value for k in sizes]
    assert [one["one_value"] for one in sample] == pytest.approx([3 * up for up in alone])
    third = Parameters(epsilon=1.0 / 3)
    alone = [leverage(protocol("grr", k, third)).one_value for k in sizes]
    assert [one["one_value"] for one in split] == pytest.approx(alone)
    means = leverage_record(allocate("sample", "one_bit_mean", (101, 101), parameters))
    single = leverage(protocol("one_bit_mean", 101, parameters)).one_value
    assert [one["one_value"] for one in means] == pytest.approx([2 * single] * 2)


@pytest.mark.parametrize(("scale", "found"), [(0.5, False), (1.3, True)])
def test_forgers_put_a_string_on_the_list_without_an_alarm(scale: float, found: bool) -> None:
    """So many as docs/poisoning.md says, whose lengths and functions are drawn as devices draw them."""
    collection = ldpbeam.parse_collection(
        "name: w\ndomain: {strings: {max_length: 6, symbols: abcdefgh}}\nprotocol: olh\nepsilon: 4\n"
        "epoch: {length: 1d}\n"
    )
    kind, honest = collection.protocol, 20_000
    assert isinstance(kind, Prefixes)
    strings, level = kind.strings, kind.estimator.level
    drawn = np.random.default_rng(3)
    words = ["".join(drawn.choice(list("abcde"), 6)) for _ in range(1000)]
    ranks = 1 / np.arange(1, 1001)
    texts = [words[i] for i in drawn.choice(1000, honest, p=ranks / ranks.sum())]
    columns = ldpbeam.simulate(collection, texts)
    support = Support.zero_of(kind.counter)
    support.add(columns.payloads, kind.counter)
    least, _ = smallest_found(kind, honest)
    [record] = leverage_record(kind)[:1]
    forged = round(scale * least * honest / (float(kind.share) * present(record["one_value"])))
    lengths = drawn.choice(len(strings.lengths), forged, p=np.array(strings.weights) / sum(strings.weights))
    for length, seed in zip(lengths.tolist(), drawn.integers(0, level.family.functions, forged), strict=True):
        symbol = level.family.hash(int(seed), strings.fingerprints("hgfedh")[length])
        payload = kind.device.encode(AttributeResponse(length, Hashed(int(seed), symbol)))
        support.add(np.frombuffer(payload, np.uint8)[None], kind.counter)
    assert not any(one.alarm for one in indicators(kind, support))
    (estimator,) = collection.estimators
    labels = present(estimator.estimate(support.counts, support.reports).labels)
    assert words[0] in labels
    assert ("hgfedh" in labels) == found
