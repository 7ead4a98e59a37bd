"""What an audit compares between two collections has the probabilities of the reports themselves."""

from __future__ import annotations

from typing import Any

import pytest

from ldpbeam.protocols import Parameters, protocol

ONE, TWO = Parameters(epsilon=1.0), Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)
KEPT = Parameters(epsilon_longitudinal=2.0, d=3)
K, HELD = 6, 2
BITS = [("sue", ONE), ("oue", ONE), ("l_sue", TWO), ("l_osue", TWO), ("dbitflip_pm", KEPT)]


def shown(name: str, parameters: Parameters, most: int = K) -> tuple[Any, list[Any]]:
    built = protocol(name, K, parameters)
    return built, list(built.law.shown_answers(HELD, most))


def second(answer: Any) -> float:
    """P(a report shows symbol 1)."""
    return sum(p * row[1] for p, row in zip(answer.chances, answer.rates, strict=True))


@pytest.mark.parametrize(("name", "parameters"), BITS)
def test_each_value_has_a_bit_with_the_probability_of_its_support(name: str, parameters: Parameters) -> None:
    built, answers = shown(name, parameters)
    support = built.estimator.support
    own, other = float(support.own), float(support.other)
    assert [answer.held for answer in answers] == [value == HELD for value in range(K)]
    wanted = [own if answer.held else other for answer in answers]
    assert [second(answer) for answer in answers] == pytest.approx(wanted)
    assert {answer.memoised for answer in answers} == {parameters is not ONE}
    assert len(shown(name, parameters, 3)[1]) == 3


def test_a_bit_is_read_where_the_report_has_it() -> None:
    _, bits = shown("sue", ONE)
    assert [answer.symbol(0b000110) for answer in bits] == [0, 1, 1, 0, 0, 0]
    built, some = shown("dbitflip_pm", KEPT)
    response = next(iter(built.law.responses()))._replace(bits=0b101)
    assert response.indices == (0, 1, 2)
    assert [answer.symbol(response) for answer in some] == [1, 0, 1, None, None, None]


def test_the_answer_to_a_hash_is_whether_a_report_has_it() -> None:
    built, (answer,) = shown("loloha", TWO)
    assert 1 - second(answer) == pytest.approx(float(built.rounds.composed[0]))
    for response in list(built.law.responses())[:50]:
        hashed = built.device.family.hash(response.seed, HELD)
        assert answer.input(response) == hashed
        assert answer.symbol(response) == (response.symbol != hashed)
    assert answer.memoised


@pytest.mark.parametrize("name", ["grr", "olh", "subset"])
def test_one_round_protocols_with_one_symbol_show_no_other_answers(name: str) -> None:
    assert shown(name, ONE)[1] == []
