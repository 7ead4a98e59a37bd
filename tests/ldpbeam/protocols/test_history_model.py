"""The laws that the audit tests against are those of the protocols: enumerated a second way, exactly."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import log
from typing import Any

import pytest

from ldpbeam.audit.checks.evidence import cell_probability, constant_limit
from ldpbeam.audit.client.draws import all_cells
from ldpbeam.audit.law.pairs import model_of
from ldpbeam.protocols.contract import LocalProtocol
from ldpbeam.protocols.hashed import Hashed
from ldpbeam.protocols.history_model import Model
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.randomness import FULL
from tests.ldpbeam.audit.collections import COLLECTIONS, of, several
from tests.reference.settings import Setting, settings

SETTINGS = [setting for size in (2, 3, 5) for setting in settings((size,))]


def first_reports(protocol: LocalProtocol[Any], model: Model, value: Any) -> dict[Any, Fraction]:
    """P(stratum and symbol) from ``likelihood``, over every response."""
    responses = list(protocol.law.responses())
    seeds = {getattr(response, "seed", None) for response in responses}
    found: dict[Any, Fraction] = defaultdict(Fraction)
    for response in responses:
        found[model.place(response)] += protocol.law.likelihood(response, value) / len(seeds)
    return found


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_first_reports_have_the_likelihoods_of_the_protocol(setting: Setting) -> None:
    protocol = setting.build()
    model = model_of(protocol)
    assert sum(stratum.probability for stratum in model.strata) == 1
    for number, value in enumerate(model.pair):
        mine = {cell: cell_probability(model, (number,), cell) for cell in all_cells(model, 1)}
        assert sum(mine.values()) == 1
        try:
            theirs = first_reports(protocol, model, value)
        except NotImplementedError:
            assert setting.parameters.hash_family == "affine" or setting.name == "binflip_plus"
            continue
        assert {(stratum, symbols[0]): p for (stratum, symbols), p in mine.items() if p} == {
            cell: p for cell, p in theirs.items() if p
        }


@pytest.mark.parametrize("name", ["sample", "split_one_round", "allomfree", "together", "together_memoised"])
def test_attributes_have_the_likelihoods_of_the_protocol(name: str) -> None:
    small = {
        "sample": several("sample", "loloha", (2, 3), g=2),
        "split_one_round": several("split", "grr", (2, 3)),
        "allomfree": several("allomfree", "", (2, 3)),
    }
    protocol = small.get(name, COLLECTIONS[name]).protocol
    model = model_of(protocol)
    for number, value in enumerate(model.pair):
        theirs: dict[Any, Fraction] = defaultdict(Fraction)
        for response in protocol.law.responses():
            # A part with a hash function has its likelihoods given the function.
            parts = protocol.device.responses_by_attribute(response)
            share = Fraction(1)
            for index in parts:
                family = getattr(protocol.parts[index], "family", None)
                share /= 1 if family is None else len(list(family.seeds()))
            theirs[model.place(response)] += protocol.law.likelihood(response, value) * share
        for cell in all_cells(model, 1):
            assert cell_probability(model, (number,), cell) == theirs[cell[0], cell[1][0]]


@pytest.mark.parametrize("name", ["l_grr", "l_sue", "l_osue", "loloha"])
@pytest.mark.parametrize("pattern", [(0, 0, 0), (0, 1, 0), (1, 1, 0)])
def test_histories_are_sums_over_all_memos(name: str, pattern: tuple[int, ...]) -> None:
    # Of four values some functions to two symbols do not separate the first from the last.
    protocol: Any = of(name, size=4 if name == "loloha" else 2, g=2).protocol
    model = model_of(protocol)
    seeds = list(protocol.family.seeds()) if hasattr(protocol, "family") else [None]
    found: dict[Any, Fraction] = defaultdict(Fraction)
    size = 4 if name in ("l_sue", "l_osue") else 2
    answers = range(size)

    def once(channel: Any, answer: int, given: int) -> Fraction:
        if size == 2:
            return Fraction(channel.keep if answer == given else channel.each, channel.total)
        p = Fraction(1)
        for bit in range(2):
            one = Fraction(channel.one if given >> bit & 1 else channel.zero, FULL)
            p *= one if answer >> bit & 1 else 1 - one
        return p

    for seed in seeds:
        inputs = [value if seed is None else protocol.family.hash(seed, value) for value in model.pair]
        for table in product(answers, repeat=2):  # the permanent answer of input 0 and of input 1
            p = Fraction(1, len(seeds))
            for number, answer in enumerate(table):
                p *= once(protocol.rounds.permanent, answer, number if size == 2 else 1 << number)
            for sent in product(answers, repeat=3):
                q = p
                for value, symbol in zip(pattern, sent, strict=True):
                    q *= once(protocol.rounds.last, symbol, table[inputs[value]])
                made = [
                    protocol.device.decode(protocol.device.encode(_response(seed, symbol))) for symbol in sent
                ]
                places = [model.place(one) for one in made]
                found[places[0][0], tuple(symbol for _, symbol in places)] += q
    for cell in all_cells(model, 3):
        assert cell_probability(model, pattern, cell) == found[cell]


def _response(seed: int | None, symbol: int) -> Any:
    return symbol if seed is None else Hashed(seed, symbol)


@pytest.mark.parametrize("name", ["l_grr", "l_sue", "l_osue", "l_oue", "rappor", "bilo", "dbitflip_pm"])
def test_the_best_cell_of_unchanged_values_is_the_loss_curve(name: str) -> None:
    protocol = COLLECTIONS[name].protocol
    model = model_of(protocol)
    for reports in (1, 2, 3):
        ratios = [
            stratum.history((0,) * reports, symbols) / stratum.history((1,) * reports, symbols)
            for stratum in model.strata
            for symbols in product(range(stratum.symbols), repeat=reports)
            if stratum.history((1,) * reports, symbols)
        ]
        assert log(max(ratios)) == pytest.approx(constant_limit(protocol, reports), rel=1e-9)
        assert log(max(ratios)) <= constant_limit(protocol, reports)


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["l_grr", "l_osue", "bilo", "rappor", "sample", "split"])
def test_no_cell_of_any_two_patterns_exceeds_what_the_pages_promise(name: str) -> None:
    protocol = COLLECTIONS[name].protocol
    model = model_of(protocol)
    length = 2 if name == "split" else 3
    assert protocol.losses is not None
    for one, other in product(product((0, 1), repeat=length), repeat=2):
        together = [one.index(v) for v in one] == [other.index(v) for v in other]
        limit = protocol.losses.same_changes(length) if together else protocol.losses.any_changes(length)
        assert limit is not None
        for cell in all_cells(model, length):
            p, q = (cell_probability(model, pattern, cell) for pattern in (one, other))
            if p > q:
                assert log(p / q) <= limit * (1 + 1e-12), (one, other, cell)


def test_laplace_intervals_are_sums_of_likelihoods() -> None:
    protocol: Any = of("laplace_mean", size=4).protocol
    assert isinstance(protocol, LaplaceMean)
    model = model_of(protocol)
    for number, value in enumerate(model.pair):
        theirs = first_reports(protocol, model, value)
        for cell in all_cells(model, 1):
            assert cell_probability(model, (number,), cell) == theirs[cell[0], cell[1][0]]
