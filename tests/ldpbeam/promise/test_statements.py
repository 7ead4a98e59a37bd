"""The five places that state a promise or an error state the same: one number, one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from math import exp, inf

import pytest

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.file import parse_collection
from ldpbeam.planning.collection_check import CheckedCollection, errors
from ldpbeam.planning.collection_text import Particulars, collection_text
from ldpbeam.planning.explanation import explained
from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Needs
from ldpbeam.planning.plan import Plan, Row, rows_of
from ldpbeam.planning.sentences import interval_words, recommendation
from ldpbeam.planning.shuffler import shuffled_words
from ldpbeam.privacy.guarantee import MemoisedInputs
from ldpbeam.promise.promise import Promise
from ldpbeam.promise.statements import OTHER_COLLECTIONS, epsilon, statements
from ldpbeam.protocols import PROTOCOLS, Parameters
from ldpbeam.protocols.estimator import Result
from ldpbeam.records.collection_record import CollectionRecord, collection_entry
from ldpbeam.report_page.privacy import privacy

DEVICES = 100_000  # those that the page speaks of, and the default of check
NEEDS: tuple[Needs, ...] = (
    FrequencyNeeds(24, DEVICES, 365, longitudinal=2.0, first=0.9),
    FrequencyNeeds(24, DEVICES, 30, lifetime=4.0),
    MeanNeeds(13, DEVICES, 365, longitudinal=2.0, first=0.9),
    MeanNeeds(13, DEVICES, 30, lifetime=4.0),
)


@cache
def rows(needs: Needs) -> tuple[Row, ...]:
    """Of every protocol a few settings: with and without participation."""
    found = dict[tuple[str, int], Row]()
    for row in rows_of(needs):
        found.setdefault((row.setting.name, row.setting.reports), row)
    return tuple(found.values())


def collection_of(row: Row, needs: Needs) -> Collection:
    mean = isinstance(needs, MeanNeeds)
    domain = Domain(needs.values, maximum=needs.values - 1.0) if mean else Domain(needs.values)
    return parse_collection(collection_text(row, needs, Particulars("x", domain, "1d", 0)))


@pytest.mark.cases(1)
@pytest.mark.parametrize("needs", NEEDS, ids=lambda needs: f"{needs.RESULT.value}-{needs.epochs}")
def test_plan_check_page_and_run_json_say_the_same(needs: Needs) -> None:
    for row in rows(needs):
        say_the_same(row, needs)


def say_the_same(row: Row, needs: Needs) -> None:
    collection = collection_of(row, needs)
    promise = row.figures.promise
    assert collection.promise == promise
    said = statements(promise)
    texts = [one.text for one in said]
    # Sentences.
    planned = list(recommendation(Plan(needs, (row,), row, None, chosen_level=False)))
    check = [line.strip() for line in CheckedCollection.of("x", collection, DEVICES).lines()]
    stages = explained(collection)
    entry = json.loads(json.dumps(collection_entry(collection)))
    page = privacy(CollectionRecord.from_record(entry), "x").promises
    for lines in (planned, check, [one.meaning for one in page]):
        assert [line for line in lines if line in texts] == texts
        assert shuffled_words(collection, DEVICES) in lines or lines == [one.meaning for one in page]
    assert [one["text"] for one in entry["guarantee"]["statements"]] == texts
    assert [(one.name, one.value) for one in page[: len(said)]] == [(one.title, one.value) for one in said]
    for sentence in (*collection.protocol.not_hidden, OTHER_COLLECTIONS):
        assert sentence in stages["what is not promised to a device"]
        assert sentence in [one.meaning for one in page]
    # Numbers, for programs.
    guarantee, plan_record = entry["guarantee"], row.as_record()
    for name, value in promise.as_record().items():
        assert guarantee[name] == plan_record[name] == value
    levels = {one["key"]: one["level"] for one in guarantee["statements"]}
    assert guarantee["first_report"] == levels["first_report"] == promise.first_report
    assert levels["any_changes"] == plan_record["loss_any"]
    for one in said:
        assert one.value in one.text or one.level == inf
    # Errors.
    (error,) = CheckedCollection.of("x", collection, DEVICES).expected
    assert error.half_width == pytest.approx(row.figures.half_width, rel=1e-12)
    assert error.worst == row.figures.worst_half_width
    if needs.RESULT is Result.FREQUENCIES:
        assert (error.widest, error.even) == (row.figures.widest_frequency, row.figures.even_half_width)
        assert interval_words(row, needs) in " ".join(planned)
        assert interval_words(row, needs) in errors(error)
    assert f"with {DEVICES:,} devices: {errors(error)}" in check


def test_several_attributes_are_named_and_different_inputs_too() -> None:
    text = (
        "name: a\nattributes: [{name: x, domain: {size: 3}}, {name: y, domain: {size: 40}}]\n"
        "allocation: sample\nprotocol: %s\nepsilon_longitudinal: 2.0\nepsilon_first: 1.0\n"
        "epoch: {length: 1d}\n"
    )
    (values,) = [
        one.text for one in statements(parse_collection(text % "l_grr").promise) if one.key == "inputs"
    ]
    assert "about which values of each attribute it held" in values
    (symbols,) = [
        one.text for one in statements(parse_collection(text % "loloha").promise) if one.key == "inputs"
    ]
    assert "about which hash symbols of each attribute its values had" in symbols
    promise = replace(parse_collection(text % "loloha").promise, inputs=MemoisedInputs.MIXED)
    assert "which memoised inputs" in " ".join(one.text for one in statements(promise))


@pytest.mark.parametrize(
    ("counters", "protocol", "told"),
    [
        (5, "one_bit_mean", {"first_report": "2.719", "any_changes": "81.55"}),
        (5, "one_bit_rrpm", {"first_report": "1.95", "unchanged": "2.719"}),
        (2, "one_bit_mean", {}),
    ],
)
def test_what_rests_on_the_sum_of_counters_says_so(
    counters: int, protocol: str, told: dict[str, str]
) -> None:
    """Of two counters the level needs no bound on their sum (Microsoft Theorem 5)."""
    names = "".join(f"  - {{name: a{i}, domain: {{range: {{max: 100}}}}}}\n" for i in range(counters))
    levels = "epsilon: 1.0" if protocol == "one_bit_mean" else "epsilon_longitudinal: 1.0\ngamma: 0.1"
    collection = parse_collection(
        f"name: a\nattributes:\n{names}allocation: together\nprotocol: {protocol}\n{levels}\n"
        "epoch: {length: 1d, count: 30}\n"
    )
    record = collection.guarantee.as_record()
    said = {one.key: one for one in statements(collection.promise)}
    first = said["first_report"].text
    condition = "if the counters of the device add up to at most 100 in an epoch; else at most ε = "
    assert (condition in first) == bool(told)
    if told:
        assert f"{condition}{epsilon(float(str(record['first_report_without_assumption'])))}." in first
    for key, one in said.items():
        if key in told:
            assert one.value == told[key]
        if key != "first_report":
            assert ("on the same condition" in one.text) == (key in told)


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (2.0000000000000004, "2"),
        (1.68703, "1.688"),
        (1.687, "1.687"),
        (0.00035791, "0.000358"),
        (430.71, "430.8"),
    ],
)
def test_a_loss_is_never_printed_smaller_than_it_is(level: float, text: str) -> None:
    assert epsilon(level) == text
    assert float(text) >= level * (1 - 1e-9)


def test_a_promise_is_about_one_report_at_least() -> None:
    built = PROTOCOLS["grr"].from_parameters(3, Parameters(epsilon=1.0))
    with pytest.raises(ValueError, match="1 report or more"):
        Promise.of_protocol(built, 0)
    once = statements(Promise.of_protocol(built, 1))
    assert [one.key for one in once] == ["first_report", "best_guess"]
    e = exp(1.0)
    assert once[1].level == pytest.approx(e / (e + 2), rel=1e-9)
    assert "from one report is right in 57.6 of 100 cases (all 3 values being equally likely)" in once[1].text
    wide = PROTOCOLS["grr"].from_parameters(40, Parameters(epsilon=1.0))
    assert [one.key for one in statements(Promise.of_protocol(wide, 1))] == ["first_report"]
    several = statements(Promise.of_protocol(wide, 365))[-1]
    assert "in 6.5 of 100 cases, from 365 reports in 94.5 of 100 if the value stays" in several.text
