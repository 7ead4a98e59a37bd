"""Several mean counters in one collection: Theorem 5 by enumeration, exact channels, errors, files, a run."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from math import log, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from ldpbeam.channels.exact import log_above
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.privacy.counters import CountersGuarantee
from ldpbeam.protocols import Parameters
from ldpbeam.protocols.attributes.allocate import allocate
from ldpbeam.protocols.attributes.base import AttributeProtocol
from ldpbeam.protocols.attributes.bounded_counters import BoundedCounters
from ldpbeam.protocols.attributes.sample import Sample
from ldpbeam.protocols.one_bit_mean import OneBit, PointBitDevice
from ldpbeam.protocols.part_estimator import part_estimators
from ldpbeam.randomness import SystemRandomness
from ldpbeam.simulators.population.joint import Joint, joint_population
from ldpbeam.simulators.population.specs import ABSENT
from ldpbeam.simulators.protocol_fleet import ProtocolFleet
from ldpbeam.simulators.random_words import RandomWords
from tests.narrow import of_kind

MEANS = ("one_bit_mean", "one_bit_rrpm", "laplace_mean", "piecewise_mean")
BITS = MEANS[:2]
ALL = [(a, n) for a in ("sample", "split") for n in MEANS] + [("together", n) for n in BITS]


def build(
    allocation: str, name: str, sizes: tuple[int, ...], epsilon: float = 1.0, **more: Any
) -> AttributeProtocol[Any]:
    level = "epsilon_longitudinal" if name == "one_bit_rrpm" else "epsilon"
    return allocate(allocation, name, sizes, Parameters(**{level: epsilon, **more}))


def worst(kind: AttributeProtocol[Any], vectors: list[tuple[int, ...]]) -> Fraction:
    """Largest ratio of any response between any two vectors, from the integers."""
    found = Fraction(1)
    for response in kind.law.responses():
        chances = [kind.law.likelihood(response, v) for v in vectors]
        found = max(found, max(chances) / min(chances))
    return found


# --- Theorem 5


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("name", "more"), [("one_bit_mean", {}), ("one_bit_rrpm", {}), ("one_bit_rrpm", {"gamma": 0.2})]
)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
@pytest.mark.parametrize(("counters", "m"), [(2, 4), (3, 4), (4, 3)])
def test_theorem_5_for_every_pair_of_vectors(
    name: str, more: dict[str, Any], epsilon: float, counters: int, m: int
) -> None:
    kind = build("together", name, (m + 1,) * counters, epsilon, **more)
    guarantee = kind.guarantee
    assert isinstance(guarantee, CountersGuarantee)
    everything = product(range(m + 1), repeat=counters)
    found = worst(kind, [v for v in everything if sum(v) <= m])
    assert found <= guarantee.first_ratio
    stated = guarantee.bounded_sum_epsilon
    assert log(found) <= stated
    single = guarantee.single.first_ratio
    reached = single * (1 + (single - 1) / (counters - 1)) ** (counters - 1)
    assert found <= reached
    assert (found == reached) == (m % (counters - 1) == 0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_without_the_constraint_the_bound_fails(epsilon: float) -> None:
    kind = build("together", "one_bit_mean", (3,) * 4, epsilon)
    guarantee = kind.guarantee
    assert isinstance(guarantee, CountersGuarantee)
    found = worst(kind, list(product((0, 2), repeat=4)))
    assert found > guarantee.first_ratio
    assert found == guarantee.single.first_ratio**4
    assert log(found) == pytest.approx(guarantee.unbounded, rel=1e-14)
    assert log_above(found) <= guarantee.unbounded * (1 + 1e-14)


def test_the_papers_deployment() -> None:
    """ε = 1 and γ = 0.2: 1.337 where Microsoft prints 1.672; two counters cost less without the theorem."""
    kind = build("together", "one_bit_rrpm", (86401,) * 1000, gamma=0.2)
    record = json.loads(json.dumps(kind.guarantee.as_record()))
    assert round(record["first_report"], 3) == round(record["theorem_5"], 3) == 1.337
    assert record["first_report_without_assumption"] == pytest.approx(569.445, abs=0.001)
    assert round(record["unchanged_values"], 3) == 2.718
    assert record["per_memoised_input"] == pytest.approx(1000.0)
    assert record["cap_over_inputs"] == pytest.approx(2000.0)
    assert "add up to at most 86400" in record["assumption"]
    two = build("together", "one_bit_rrpm", (86401,) * 2, gamma=0.2).guarantee.as_record()
    keys = ("first_report", "first_report_without_assumption", "theorem_5")
    plain, without, theorem = (of_kind(float, two[key]) for key in keys)
    assert plain <= without < theorem
    once = build("together", "one_bit_mean", (86401,) * 3).guarantee.as_record()
    assert once["unchanged_values"] is None
    assert "assumption" not in build("split", "one_bit_mean", (3, 3)).guarantee.as_record()


@pytest.mark.parametrize("segment", [1, 2, 4])
def test_all_reports_about_unchanged_values_stay_below_theorem_5_at_the_memoised_level(segment: int) -> None:
    m, t = 4, 3
    kind = build("together", "one_bit_rrpm", (m + 1,) * t, gamma=0.2, segment=segment)
    guarantee = kind.guarantee
    assert isinstance(guarantee, CountersGuarantee)
    part = kind.parts[0]
    assert isinstance(part, OneBit)
    point = part.device
    assert isinstance(point, PointBitDevice)
    flip = Fraction(getattr(part, "flip"), 1 << 64)  # noqa: B009

    def law(value: int) -> dict[tuple[int, ...], Fraction]:
        found: dict[tuple[int, ...], Fraction] = {}
        for alpha, bit, pair in product(range(segment), (0, 1), product((0, 1), repeat=2)):
            weight = part.bit.weight(point.point(value, alpha) * segment)
            chance = Fraction(weight if bit else (1 << 64) - weight, segment << 64)
            for sent in pair:
                chance *= 1 - flip if sent == bit else flip
            found[pair] = found.get(pair, Fraction(0)) + chance
        return found

    laws = [law(x) for x in range(m + 1)]
    assert all(sum(one.values()) == 1 for one in laws)
    vectors = [v for v in product(range(m + 1), repeat=t) if sum(v) <= m]
    most = Fraction(1)
    for sent in product(product((0, 1), repeat=2), repeat=t):
        chances = [
            prod((laws[x][s] for x, s in zip(v, sent, strict=True)), start=Fraction(1)) for v in vectors
        ]
        most = max(most, Fraction(max(chances), min(chances)))
    assert guarantee.first_report < log(most) <= (guarantee.unchanged_values or 0)


# --- devices and reports


@pytest.mark.parametrize(("allocation", "name"), [a for a in ALL if a[1] in BITS])
@pytest.mark.parametrize("sizes", [(4, 4), (4, 4, 4)])
def test_the_whole_channel(allocation: str, name: str, sizes: tuple[int, ...]) -> None:
    """Probabilities add up to 1 and every mean comes back from expected counts; exact."""
    kind = build(allocation, name, sizes)
    for value in product(range(4), repeat=len(sizes)):
        total = Fraction(0)
        ones, reports = [Fraction(0)] * len(sizes), [Fraction(0)] * len(sizes)
        for response in kind.law.responses():
            payload = kind.device.encode(response)
            assert kind.device.decode(payload) == response
            counts = np.zeros(kind.counter.counts_length, np.int64)
            row = np.frombuffer(payload, np.uint8).reshape(1, -1)
            assert kind.counter.check(row).tolist() == [0]
            kind.counter.add(row, counts)
            chance = kind.law.likelihood(response, value)
            total += chance
            for j, (cells, n) in enumerate(kind.counter.part_counts(counts, 1)):
                ones[j] += chance * int(cells[0])
                reports[j] += chance * n
        assert total == 1
        for j, part in enumerate(kind.parts):
            assert isinstance(part, OneBit)
            share = (ones[j] / reports[j] - part.ends.other) / part.ends.gap
            assert part.estimator.maximum * share == value[j]
    if allocation != "together":
        vectors = list(product(range(4), repeat=len(sizes)))
        assert worst(kind, vectors) == kind.guarantee.first_ratio
        assert log(kind.guarantee.first_ratio) <= 1.0


@pytest.mark.parametrize("counters", [2, 7, 8, 9, 20])
def test_bits_are_packed(counters: int) -> None:
    kind = build("together", "one_bit_mean", (9,) * counters)
    assert kind.device.payload_bits == counters
    assert kind.device.payload_size == -(-counters // 8)
    draw = np.random.default_rng(counters)
    payloads = draw.integers(0, 256, (500, kind.device.payload_size)).astype(np.uint8)
    good = []
    for payload, code in zip(payloads, kind.counter.check(payloads), strict=True):
        try:
            response = kind.device.decode(payload.tobytes())
        except InvalidPayload as error:
            assert CheckCode(code).reason is error.reason is Reason.UNUSED_BITS
        else:
            assert code == 0
            assert kind.device.encode(response) == payload.tobytes()
            good.append((payload, response))
    assert good
    counts = np.zeros(kind.counter.counts_length, np.int64)
    kind.counter.add(np.array([payload for payload, _ in good]), counts)
    assert counts.tolist() == np.sum([response for _, response in good], axis=0).tolist()
    assert kind.device.encode((1,) + (0,) * (counters - 1))[0] == 1
    with pytest.raises(InvalidPayload):
        kind.device.decode(b"\0" * (kind.device.payload_size + 1))


@pytest.mark.parametrize("name", BITS)
def test_a_device_refuses_counters_that_add_up_to_too_much(name: str) -> None:
    kind, source = build("together", name, (61,) * 3), SystemRandomness()
    memo = kind.device.new_memo(source)
    for fine in ((60, 0, 0), (20, 20, 20), (0, 0, 0)):
        assert len(kind.device.privatize(fine, memo, source)[0]) == 3
    with pytest.raises(ValueError, match="at most 60") as caught:
        kind.device.privatize((41, 7, 13), memo, source)
    assert not {"41", "7", "13", "61"} & set(str(caught.value).split())
    fleet = ProtocolFleet(kind, 2, RandomWords(1))
    with pytest.raises(ValueError, match="at most 60"):
        list(fleet.reports(0, np.array([[41, 7, 13], [0, 0, 0]], np.int32)))
    # Without the assumption the other allocations take it.
    for allocation in ("sample", "split"):
        other = build(allocation, name, (61,) * 3)
        other.device.privatize((41, 7, 13), other.device.new_memo(source), source)


# --- estimates


def test_intervals_of_sampled_laplace_means() -> None:
    kind = build("sample", "laplace_mean", (101, 101), 3.0)
    part, whole = part_estimators(kind)[0], kind.parts[0]
    noise, z = whole.instant.variance, float(norm.isf(0.025))  # type: ignore[attr-defined]
    for total in (-9000, -300, 0, 700, 20_000, 39_000, 40_500, 60_000):
        found, plain = (p.estimate(np.array([total]), 400) for p in (part, whole.estimator))
        assert found.low[0] <= plain.low[0] < plain.high[0] <= found.high[0]
        mean, ends = total / 400, (found.low[0], found.high[0])
        assert ends[0] <= mean <= ends[1]
        for end in ends:
            spread = (noise + 0.5 * max(end * (100 - end), 0.0)) / 400
            if 0 < end < 100 and end != mean:
                assert abs(end - mean) == pytest.approx(z * spread**0.5, rel=1e-9)
            else:  # the equation has its root beyond
                assert end in (0.0, 100.0, mean)
    wide = part.estimate(np.array([20_000]), 400)
    assert 0 < wide.low[0] < wide.high[0] < 100
    silent = kind.estimator.estimate(np.array([0, 9, 0, 100]), 9)
    assert np.isnan(silent.frequency[0])
    assert silent.frequency[1] == pytest.approx(100 / 9)
    assert isinstance(kind, Sample)


# --- files

FILE = """\
name: screen
attributes:
  - {name: mail, domain: {range: {max: 60}}}
  - {name: web, domain: {range: {max: 60}}}
  - {name: games, domain: {range: {max: 60}}}
allocation: together
protocol: one_bit_rrpm
epsilon_longitudinal: 1.0
gamma: 0.2
segment: 30
epoch: {length: 6h, count: 9}
"""
LAPLACE = "protocol: laplace_mean\nepsilon: 1.0\n"
RRPM = "protocol: one_bit_rrpm\nepsilon_longitudinal: 1.0\ngamma: 0.2\nsegment: 30\n"


def test_a_collection_of_counters() -> None:
    agreed = parse_collection(FILE)
    assert isinstance(agreed.protocol, BoundedCounters)
    assert agreed.protocol.device.sum_limit == 60
    message = agreed.to_message()
    assert message.allocation == "together"
    assert [(a.gamma, a.segment, a.domain.maximum) for a in message.attributes] == [(0.2, 30, 60.0)] * 3
    record = json.loads(json.dumps(agreed.as_record()))
    assert record["guarantee"]["counters"] == 3
    assert record["guarantee"]["first_report_without_assumption"] > record["guarantee"]["first_report"]
    assert [a["support"] for a in record["attributes"]] == [None] * 3
    texts = [FILE.replace("together", a) for a in ("sample", "split")]
    texts += [FILE.replace("gamma: 0.2", "gamma: 0.1"), FILE.replace("segment: 30", "segment: 20")]
    texts += [FILE.replace("max: 60", "max: 120"), texts[0].replace(RRPM, LAPLACE)]
    others = [parse_collection(text) for text in texts]
    assert len({agreed.digest, *(other.digest for other in others)}) == 7
    assert others[0].protocol.device.sum_limit is None


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "said"),
    [
        (RRPM, LAPLACE, "VALUE", 6, "one bit per counter, which laplace_mean does not send"),
        ("web, domain: {range: {max: 60}}", "web, domain: {range: {max: 90}}", "VALUE", 6, "same max"),
        (RRPM, "protocol: one_bit_mean\nepsilon: 20.0\n", "VALUE", None, "would spend 60, more than 32"),
    ],
)
def test_unsound_collections_are_refused(old: str, new: str, code: str, line: int | None, said: str) -> None:
    with pytest.raises(CollectionError) as caught:
        parse_collection(FILE.replace(old, new), "f.yaml")
    assert caught.value.code == f"E-COLLECTION-{code}"
    assert said in str(caught.value)
    if line:
        assert caught.value.where == f"f.yaml:{line}"


# --- populations and a run


def crowd(agreed: Collection, spec: str, devices: int | None, epochs: int = 2) -> Joint:
    return joint_population(
        spec,
        attributes=agreed.histograms,
        devices=devices,
        epochs=epochs,
        random_words=RandomWords(3),
        limit=agreed.protocol.device.sum_limit,
    )


def test_drawn_vectors_are_scaled_down() -> None:
    agreed = parse_collection(FILE)
    free = parse_collection(FILE.replace("together", "split"))
    for ours, drawn in zip(
        crowd(agreed, "syn", 3000).values(), crowd(free, "syn", 3000).values(), strict=True
    ):
        sums = drawn.sum(axis=1)
        assert ours.sum(axis=1).max() == 60
        assert np.array_equal(ours[sums <= 60], drawn[sums <= 60])
        expected = np.floor(drawn * np.minimum(1.0, 60 / np.maximum(sums, 1))[:, None] + 1e-9)
        assert np.array_equal(ours, expected)


def test_table_rows_beyond_the_sum(tmp_path: Path) -> None:
    agreed, path = parse_collection(FILE), tmp_path / "t.csv"
    path.write_text("games,mail,web\n10,20,30\n,,\n59,0,1\n")
    values = next(crowd(agreed, f"table:{path}", None).values())
    assert values.tolist() == [[20, 30, 10], [ABSENT] * 3, [0, 1, 59]]
    path.write_text("games,mail,web\n10,20,30\n\n,,\n59,0,1\n23,17,44\n")
    with pytest.raises(ValueError, match=r"t\.csv:6: .* more than 60") as caught:
        crowd(agreed, f"table:{path}", None)
    assert not {"23", "17", "44", "84"} & set(str(caught.value).replace(",", " ").split())
    free = parse_collection(FILE.replace("together", "split"))
    assert crowd(free, f"table:{path}", None).devices == 4
