"""Several attributes in one collection: exact channels, guarantees, estimators, choices, files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from math import exp, log, prod
from typing import Any

import numpy as np
import pytest

from ldpbeam.channels.calibration import Calibration
from ldpbeam.collection.collection import Attribute, Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import CollectionError, InvalidPayload, Reason
from ldpbeam.estimates import FEW, tie_breakers, variance
from ldpbeam.histogram import estimate_epoch
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols import PROTOCOLS, FrequencyProtocol, LocalProtocol, Memo, Parameters
from ldpbeam.protocols.attributes.allocate import ALLOCATIONS, allocate
from ldpbeam.protocols.attributes.base import AttributeProtocol
from ldpbeam.protocols.attributes.sample import Sample
from ldpbeam.protocols.part_estimator import part_estimators
from ldpbeam.randomness import SystemRandomness
from ldpbeam.support import Support
from tests.narrow import present

LEVELS: dict[str, Any] = {"epsilon": 1.0, "epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
COUNTING = [name for name, kind in PROTOCOLS.items() if issubclass(kind, FrequencyProtocol)]
SIZES = (2, 3)


def build(allocation: str, name: str | None, sizes: tuple[int, ...], **more: Any) -> AttributeProtocol[Any]:
    kind = PROTOCOLS[name] if name else ALLOCATIONS[allocation]
    levels = {key: LEVELS[key] for key in kind.PARAMETERS if key in LEVELS}
    if "d" in kind.PARAMETERS:
        more.setdefault("d", 2)
    return allocate(allocation, name, sizes, Parameters(**{**levels, **more}))


# Protocols whose response says nothing about how likely its seed is: one seed each, so enumerable whole.
ENUMERABLE = [
    *(("sample", n) for n in ("grr", "oue", "l_grr", "l_osue", "l_sue", "loloha", "olh")),
    *(("split", n) for n in ("grr", "oue", "l_grr", "l_osue", "loloha")),
    ("allomfree", None),
]


def seeds(kind: LocalProtocol[Any]) -> int:
    family = getattr(kind, "family", None)
    return len(list(family.seeds())) if family else 1


def channel(kind: AttributeProtocol[Any]) -> Iterator[tuple[Any, Fraction]]:
    """Every response with the probability of the seeds in it."""
    for response in kind.law.responses():
        if isinstance(kind, Sample):
            yield response, Fraction(1, seeds(kind.parts[response.attribute]))
        else:
            share = Fraction(1)
            for part in kind.parts:
                share /= seeds(part)
            yield response, share


@pytest.mark.parametrize(("allocation", "name"), ENUMERABLE)
def test_the_whole_channel(allocation: str, name: str | None) -> None:
    kind = build(allocation, name, SIZES)
    values = list(product(*(range(size) for size in SIZES)))
    totals = dict.fromkeys(values, Fraction(0))
    expected = {v: [Fraction(0)] * kind.domain_size for v in values}
    reports = {v: [Fraction(0)] * len(SIZES) for v in values}
    worst = Fraction(1)
    for response, seed in channel(kind):
        payload = kind.device.encode(response)
        assert kind.device.decode(payload) == response
        counts = np.zeros(kind.counter.counts_length, np.int64)
        kind.counter.add(np.frombuffer(payload, np.uint8).reshape(1, -1), counts)
        supported = kind.counter.support_counts(counts).tolist()
        behind = [n for _, n in kind.counter.part_counts(counts, 1)]
        chances = [kind.law.likelihood(response, v) for v in values]
        worst = max(worst, max(chances) / min(chances))
        for v, chance in zip(values, chances, strict=True):
            totals[v] += seed * chance
            for w, s in enumerate(supported):
                expected[v][w] += seed * chance * s
            for j, n in enumerate(behind):
                reports[v][j] += seed * chance * n
    assert set(totals.values()) == {Fraction(1)}
    assert worst == kind.guarantee.first_ratio
    start = 0
    for j, (part, size) in enumerate(zip(part_estimators(kind), SIZES, strict=True)):
        probabilities = present(part.support)
        for v in values:
            assert reports[v][j] == kind.share
            for w in range(size):
                share = expected[v][start + w] / reports[v][j]
                assert (share - probabilities.other) / probabilities.gap == (v[j] == w)
        start += size


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize("sizes", [(4, 9, 5)])
def test_levels(name: str, sizes: tuple[int, ...]) -> None:
    more = {"d": 2}
    one = build("sample", name, sizes, **more)
    parts = [kind.guarantee for kind in one.parts]
    whole = one.guarantee
    assert whole.first_ratio == max(part.first_ratio for part in parts)
    all_of_them = build("split", name, sizes, **more)
    shares = [kind.guarantee for kind in all_of_them.parts]
    spent = all_of_them.guarantee
    assert spent.first_ratio == prod((Fraction(part.first_ratio) for part in shares), start=Fraction(1))
    if whole.memoised_ratio is None:
        assert all(part.memoised_ratio is None for part in parts)
        assert whole.cap_over_inputs is None
        assert spent.cap_over_inputs is None
    else:
        assert whole.memoised_ratio == max(part.memoised_ratio or 0 for part in parts)
        assert whole.cap_over_inputs == max(part.cap_over_inputs or 0 for part in parts)
        assert spent.memoised_inputs == sum(part.memoised_inputs or 0 for part in shares)
        assert spent.memoised_ratio == prod(
            (Fraction(present(part.memoised_ratio)) for part in shares), start=Fraction(1)
        )
        caps = sum(part.cap_over_inputs or 0 for part in shares)
        assert caps <= (spent.cap_over_inputs or 0) <= caps * (1 + 1e-12)
    # RAPPOR's first report is set by its fixed second round, and tells less than ε∞.
    limit = 2.0 if "epsilon_first" not in PROTOCOLS[name].PARAMETERS else 1.0
    limit = 1.0 if "epsilon" in PROTOCOLS[name].PARAMETERS else limit
    assert log(spent.first_ratio) <= limit + 1e-15
    assert (spent.per_memoised_input or 0) <= 2.0 + 1e-12


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("calibration", "switches"),
    [
        (Calibration.EXACT, {(1.0, 0.5): 6, (2.0, 1.0): 10, (2.0, 1.2): 11, (4.0, 2.4): 35}),
        (Calibration.PUBLISHED, {(1.0, 0.5): 4, (2.0, 1.0): 5, (2.0, 1.2): 6, (4.0, 2.4): 20}),
    ],
)
def test_where_allomfree_switches(calibration: Calibration, switches: dict[tuple[float, float], int]) -> None:
    sizes = tuple(range(2, 60))
    for (forever, first), last in switches.items():
        parameters = Parameters(epsilon_longitudinal=forever, epsilon_first=first, calibration=calibration)
        kind = allocate("allomfree", None, sizes, parameters)
        chosen = [part.NAME for part in kind.parts]
        assert chosen == ["l_grr"] * (last - 1) + ["l_osue"] * (len(sizes) - last + 1)
        if calibration is Calibration.EXACT:
            assert last == int(3 * exp(first) + 2)
        for size, part in zip(sizes, kind.parts, strict=True):
            for other in ("l_grr", "l_osue"):
                rival = allocate("sample", other, (size, size), parameters).parts[0]
                assert float(present(part.estimator.support).floor) <= float(
                    present(rival.estimator.support).floor
                ) * (1 + 1e-12)


@pytest.mark.cases(4)
@pytest.mark.parametrize("allocation", ["sample", "split"])
@pytest.mark.parametrize("name", COUNTING)
def test_check_agrees_with_decode(allocation: str, name: str) -> None:
    kind = build(allocation, name, (3, 11, 7))
    draw = np.random.default_rng(3)
    payloads = draw.integers(0, 256, (3000, kind.device.payload_size)).astype(np.uint8)
    source = SystemRandomness()
    for row in range(1500):
        value = tuple(int(draw.integers(size)) for size in (3, 11, 7))
        response, _ = kind.device.privatize(value, kind.device.new_memo(source), source)
        payload = kind.device.encode(response)
        assert len(payload) == kind.device.payload_size
        assert kind.device.decode(payload) == response
        payloads[row] = np.frombuffer(payload, np.uint8)
        if row >= 700:  # one wrong byte
            payloads[row, draw.integers(kind.device.payload_size)] ^= draw.integers(1, 256)
    if allocation == "sample":
        payloads[1500:, 0] %= 4
    codes = kind.counter.check(payloads)
    assert not codes[:700].any()
    for payload, code in zip(payloads, codes, strict=True):
        try:
            response = kind.device.decode(payload.tobytes())
        except InvalidPayload as error:
            assert CheckCode(code).reason is error.reason
        else:
            assert code == 0
            assert kind.device.encode(response) == payload.tobytes()
    with pytest.raises(InvalidPayload):
        kind.device.decode(b"\0" * (kind.device.payload_size + 1))


def test_padding_and_attributes_that_do_not_exist() -> None:
    kind = build("sample", "grr", (3, 300))
    assert kind.device.payload_size == 3
    bad = {
        b"\2\0\0": Reason.VALUE_OUT_OF_RANGE,  # a third attribute
        b"\0\3\0": Reason.VALUE_OUT_OF_RANGE,  # a fourth value
        b"\0\2\1": Reason.UNUSED_BITS,  # one byte is enough for three values
    }
    for payload, reason in bad.items():
        with pytest.raises(InvalidPayload) as caught:
            kind.device.decode(payload)
        assert caught.value.reason is reason
        code = kind.counter.check(np.frombuffer(payload, np.uint8).reshape(1, -1))[0]
        assert CheckCode(code).reason is reason


def test_two_bytes_name_one_of_more_than_256_attributes() -> None:
    kind = build("sample", "grr", (3,) * 256 + (300,))
    for payload, wrong in ((b"\1\0\2\0", False), (b"\1\0\2\1", True), (b"\0\1\2\1", False)):
        assert bool(kind.counter.check(np.frombuffer(payload, np.uint8).reshape(1, -1))[0]) == wrong


def test_what_a_response_says_about_each_attribute() -> None:
    sample, split = (build(allocation, "grr", (3, 300, 5)) for allocation in ("sample", "split"))
    for seed in range(3):
        response, _ = sample.device.privatize((2, 299, 4), Memo(seed, parts=(Memo(),)), SystemRandomness())
        ((attribute, said),) = sample.device.responses_by_attribute(response).items()
        assert (attribute, said) == (seed, sample.device.decode(sample.device.encode(response)).response)
    response, _ = split.device.privatize(
        (2, 299, 4), split.device.new_memo(SystemRandomness()), SystemRandomness()
    )
    encoded = [
        split.parts[index].device.encode(said)
        for index, said in sorted(split.device.responses_by_attribute(response).items())
    ]
    assert b"".join(encoded) == split.device.encode(response)
    alone = split.parts[0]
    assert alone.device.responses_by_attribute(1) == {0: 1}


def test_the_estimates_know_that_devices_were_sampled() -> None:
    kind = build("sample", "dbitflip", (8, 4), d=2)
    assert [present(part.support).sampled for part in part_estimators(kind)] == [
        Fraction(1, 8),
        Fraction(1, 4),
    ]
    kind = build("allomfree", None, (2, 40, 3))
    for part, inner in zip(part_estimators(kind), kind.parts, strict=True):
        support, alone = present(part.support), present(inner.estimator.support)
        assert support.sampled == Fraction(1, 3)
        assert (support.own, support.other) == (alone.own, alone.other)
        assert pickle.loads(pickle.dumps(part)) == part
        half = np.array([0.5])
        more = variance(half, 100, support) - variance(half, 100, alone)
        assert more == pytest.approx(2 / 3 * 0.25 / 100)
    assert pickle.loads(pickle.dumps(kind)) == kind


def test_merging_is_addition_and_estimates_stand_one_after_the_other() -> None:
    kind = build("sample", "l_osue", (4, 9))
    draw = np.random.default_rng(1)
    counts = draw.integers(0, 50, kind.counter.counts_length).astype(np.int64)
    counts[:2] = (100, 80)
    whole = kind.estimator.estimate(counts, 180)
    assert whole.n.tolist() == [100] * 4 + [80] * 9
    start = 0
    for part, (cells, n) in zip(part_estimators(kind), kind.counter.part_counts(counts, 180), strict=True):
        single = part.estimate(cells, n)
        rows = slice(start, start + part.protocol.estimator.size)
        start += part.protocol.estimator.size
        for name in ("frequency", "std_error", "low", "high_all"):
            assert np.array_equal(getattr(whole, name)[rows], getattr(single, name))
    both = kind.estimator.consistent("norm_sub", whole)
    assert both[:4].sum() == pytest.approx(1.0)
    assert both[4:].sum() == pytest.approx(1.0)
    counts[0] = 0
    counts[2:6] = 0
    silent = kind.estimator.estimate(counts, 80)
    assert np.isnan(silent.frequency[:4]).all()
    assert np.isfinite(silent.frequency[4:]).all()


# Collections


def collection(allocation: str = "sample", protocol: str = "loloha", **changes: Any) -> Collection:
    domains = (Domain(8), Domain(3, ("a", "b", "c")), Domain(2))
    fields: dict[str, Any] = {
        "name": "people",
        "version": 1,
        "domain": None,
        "protocol_name": protocol,
        "parameters": Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0),
        "epochs": Epochs(3600, 0),
        "attributes": tuple(map(Attribute, ("age", "region", "sex"), domains)),
        "allocation": allocation,
    }
    return Collection(**{**fields, **changes})


TEXT = """\
name: people
attributes:
  - {name: age, domain: {size: 8}}
  - {name: region, domain: {labels: [a, b, c]}}
  - name: sex
    domain: {size: 2}
allocation: sample
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1h}
"""


def test_a_file_with_attributes() -> None:
    found = parse_collection(TEXT)
    assert found == collection()
    assert found.digest == collection().digest
    assert [name for name, _ in found.histograms] == ["age", "region", "sex"]
    without = TEXT.replace("protocol: loloha\n", "").replace("sample", "allomfree")
    assert parse_collection(without) == collection("allomfree", "")


def test_the_digest_covers_attributes() -> None:
    base = collection()
    renamed = tuple(Attribute(a.name.upper(), a.domain) for a in base.attributes)
    others = [
        collection("split"),
        collection("allomfree", ""),
        collection(attributes=base.attributes[:2]),
        collection(attributes=base.attributes[::-1]),
        collection(attributes=renamed),
        collection(parameters=Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0, g=2)),
    ]
    assert len({c.digest for c in (base, *others)}) == 1 + len(others)
    assert collection(owner="somebody").digest == base.digest
    message = collection("allomfree", "").to_message()
    assert [entry.protocol for entry in message.attributes] == ["l_grr", "l_grr", "l_grr"]
    assert [entry.g for entry in base.to_message().attributes] == [3, 3, 2]
    assert not base.to_message().HasField("domain")


@pytest.mark.parametrize(
    ("change", "code", "line"),
    [
        (lambda t: t + "domain: {size: 3}\n", "E-COLLECTION-VALUE", 12),
        (lambda t: t.replace("allocation: sample\n", ""), "E-COLLECTION-KEY", None),
        (lambda t: t.replace("sample", "smaple"), "E-COLLECTION-VALUE", 7),
        (lambda t: t.replace("sample", "allomfree"), "E-COLLECTION-VALUE", 8),
        (lambda t: t.replace("name: region", "name: age"), "E-COLLECTION-VALUE", 2),
        (lambda t: t.replace("name: region, ", ""), "E-COLLECTION-KEY", 4),
        (lambda t: t.replace("{size: 8}", "{sise: 8}"), "E-COLLECTION-KEY", 3),
        (lambda t: t.replace("protocol: loloha", "protocol: grr"), "E-COLLECTION-KEY", None),
        (
            lambda t: _only(t, "attributes: [{name: a, domain: {size: 2}}]"),
            "E-COLLECTION-VALUE",
            2,
        ),
        (lambda t: _only(t, "attributes: [a, b]"), "E-COLLECTION-VALUE", 2),
        (
            lambda t: t.replace("sample", "split").replace("2.0", "3.5e-6").replace("1.0", "2.0e-6"),
            "E-COLLECTION-VALUE",
            10,
        ),
    ],
)
def test_errors_name_the_line(change: Any, code: str, line: int | None) -> None:
    with pytest.raises(CollectionError) as caught:
        parse_collection(change(TEXT), "f.yaml")
    assert caught.value.code == code
    if line:
        assert caught.value.where == f"f.yaml:{line}", str(caught.value)
    assert caught.value.remedy


def _only(text: str, attributes: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([lines[0], attributes + "\n", *lines[6:]])


def test_what_cannot_be_allocated() -> None:
    parameters = Parameters(epsilon=1.0, epsilon_longitudinal=2.0, epsilon_first=1.0)
    for allocation, name, sizes in (
        ("sampled", "grr", (2, 2)),
        ("sample", None, (2, 2)),
        ("allomfree", "l_grr", (2, 2)),
        ("sample", "grr", (2,)),
        ("split", "grr", ()),
        ("together", "grr", (2, 2)),
    ):
        with pytest.raises(CollectionError):
            allocate(allocation, name, sizes, parameters)
    with pytest.raises(CollectionError):
        collection(domain=Domain(3))
    with pytest.raises(CollectionError):
        collection(domain=Domain(3), attributes=())


@pytest.mark.parametrize("allocation", ["sample", "split"])
def test_attributes_have_tie_draws_of_their_own(allocation: str) -> None:
    sizes = (200, 200, 200)
    attributes = tuple(Attribute(name, Domain(size)) for name, size in zip("abc", sizes, strict=True))
    level = Parameters(epsilon=5.0)
    agreed = collection(attributes=attributes, allocation=allocation, protocol="grr", parameters=level)
    kind = agreed.protocol
    reports = 600
    counts = np.ones(kind.counter.counts_length, np.int64)
    if allocation == "sample":
        counts[:3] = 200
    found = estimate_epoch(agreed, 4, Support(counts, reports)).attributes
    ties = tie_breakers(agreed.digest, 4, sum(sizes))
    together = kind.estimator.estimate(counts, reports, ties)
    for j, one in enumerate(found):
        part, (cells, n) = part_estimators(kind)[j], kind.counter.part_counts(counts, reports)[j]
        mine = slice(200 * j, 200 * (j + 1))
        assert one.estimates is not None
        assert n * float(present(part.support).other) < FEW
        expected = part.estimate(cells, n, ties[mine])
        np.testing.assert_array_equal(one.estimates.low, expected.low)
        np.testing.assert_array_equal(one.estimates.high, expected.high)
        np.testing.assert_array_equal(one.estimates.low_all, expected.low_all)
        np.testing.assert_array_equal(together.low[mine], expected.low)
    limits = [one.estimates.high for one in found if one.estimates is not None]
    assert all((a != b).mean() > 0.9 for a, b in combinations(limits, 2))
