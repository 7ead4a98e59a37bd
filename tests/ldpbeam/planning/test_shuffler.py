"""What plans, checks, explanations and run.json say of a shuffler: a figure only where devices are known."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ldpbeam.collection.file import parse_collection
from ldpbeam.planning.collection_check import CheckedCollection
from ldpbeam.planning.explanation import explained
from ldpbeam.planning.needs import FrequencyNeeds
from ldpbeam.planning.plan import make_plan
from ldpbeam.planning.sentences import recommendation
from ldpbeam.planning.shuffler import ShuffledPrivacy, behind_shuffler, of_collection
from ldpbeam.promise.promise import YEAR
from ldpbeam.promise.statements import epsilon
from ldpbeam.shuffling.randomiser import ASSUMPTION, DELTA, many_epochs, one_epoch
from ldpbeam.shuffling.shuffle_plan import planned_epsilon

ONE = "name: x\ndomain: {size: 9}\nprotocol: %s\n%s\nepoch: {length: 1d%s}\n"
BOTH = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0"


def test_few_epochs_and_few_devices_are_those_of_the_collection() -> None:
    kept = parse_collection(
        ONE % ("oue", "epsilon: 1.0", ", count: 40") + "participation: {reports: 4, of: 40}\n"
    )
    found = of_collection(kept, 100_000)
    once = one_epoch(kept.protocol)
    assert found is not None
    assert once is not None
    assert (found.devices, found.reports, found.functions) == (10_000, 4, 1)
    assert found.one_report == planned_epsilon(once, 10_000)
    assert found.all_reports == planned_epsilon(once, 10_000, 4) > found.one_report
    for count, reports in ((", count: 7", 7), ("", YEAR)):
        found = of_collection(parse_collection(ONE % ("oue", "epsilon: 1.0", count)), 1_000)
        assert found is not None
        assert (found.devices, found.reports) == (1_000, reports)


def test_memoised_answers_are_looked_at_round_by_round() -> None:
    found = of_collection(parse_collection(ONE % ("loloha", f"g: 3\n{BOTH}", ", count: 30")), 100_000)
    kind = parse_collection(ONE % ("loloha", f"g: 3\n{BOTH}", "")).protocol
    often = many_epochs(kind)
    assert found is not None
    assert often is not None
    assert found.functions == often.functions == 8
    assert found.all_reports == planned_epsilon(often, 100_000, 30) > planned_epsilon(often, 100_000, 29)
    text = behind_shuffler(found)
    assert "of which about 1 in 8 has the same hash function" in text
    assert found.renaming is not None
    classes = one_epoch(kind, renamed=True)
    assert classes is not None
    assert (found.renaming.functions, found.renaming.renaming) == (4, None)
    assert found.renaming.one_report == planned_epsilon(classes, 100_000) < found.one_report
    assert f"; at most ε = {epsilon(found.renaming.one_report)} and ε = " in text
    assert (
        "if the shuffler also renames hash symbols, since about 1 in 4 of the devices is then alike" in text
    )
    two = of_collection(parse_collection(ONE % ("loloha", f"g: 2\n{BOTH}", "")), 100_000)
    assert two is not None
    assert two.renaming is None
    # Two reports of few devices: never more than what is known without a shuffler.
    few = ShuffledPrivacy.of(kind, 100, Fraction(1), 2)
    assert few is not None
    assert kind.losses is not None
    assert few.all_reports == kind.losses.any_changes(2)


@pytest.mark.parametrize("family", ["linear", "affine"])
def test_one_report_in_a_life_shows_no_permanent_answer_twice(family: str) -> None:
    """Then a memoising protocol is a one-round one at ε1, and its hash function is as fresh as the rest."""
    text = ONE % ("loloha", f"g: 3\nhash_family: {family}\n{BOTH}", ", count: %d")
    once, single = parse_collection(text % 40 + "participation: {reports: 1, of: 40}\n"), text % 1
    alone = one_epoch(once.protocol, alone=True)
    assert alone is not None
    for agreed, devices in ((once, 400_000), (parse_collection(single), 10_000)):
        found = of_collection(agreed, devices)
        assert found is not None
        assert (found.devices, found.reports, found.functions, found.renaming) == (10_000, 1, 1, None)
        assert found.one_report == found.all_reports == planned_epsilon(alone, 10_000) < alone.local / 10
        assert "how much less follows" in agreed.as_record()["guarantee"]["behind_shuffler"].lower()  # type: ignore[index]
    twice = of_collection(parse_collection(text % 40 + "participation: {reports: 2, of: 40}\n"), 200_000)
    assert twice is None or twice.one_report > 2 * planned_epsilon(alone, 10_000)


@pytest.mark.parametrize(
    ("protocol", "levels", "count"),
    [("loloha", f"hash_family: affine\n{BOTH}", ""), ("one_bit_mean", "epsilon: 1.0", ", count: 3")],
)
def test_nothing_is_made_up_where_nothing_is_known(protocol: str, levels: str, count: str) -> None:
    text = ONE % (protocol, levels, count)
    agreed = parse_collection(text.replace("{size: 9}", "{range: {max: 9}}") if "mean" in protocol else text)
    assert of_collection(agreed, 10**6) is None
    checked = CheckedCollection.of("x", agreed, 10**6)
    assert any("nothing is known for this collection" in line for line in checked.lines())
    assert checked.as_record()["behind_shuffler"] is None
    assert "Nothing is stated" in agreed.as_record()["guarantee"]["behind_shuffler"]  # type: ignore[index]


def test_a_check_states_the_figure_and_run_json_what_it_needs() -> None:
    agreed = parse_collection(ONE % ("oue", "epsilon: 1.0", ""))
    found = of_collection(agreed, 20_000)
    assert found is not None
    (line,) = [
        line for line in CheckedCollection.of("x", agreed, 20_000).lines() if "Behind a shuffler" in line
    ]
    once = epsilon(found.one_report)
    assert f"a report tells at most ε = {once} to a server that knows the reports of all" in line
    assert found.all_reports is not None
    assert f"365 reports tell at most ε = {epsilon(found.all_reports)}, whatever changes" in line
    assert ASSUMPTION in line
    record = CheckedCollection.of("x", agreed, 20_000).as_record()["behind_shuffler"]
    assert record["one_report"] == found.one_report
    assert (record["delta"], record["devices"], record["assumption"]) == (DELTA, 20_000, ASSUMPTION)
    assert line.strip() in explained(agreed, 20_000)["what is promised to a device"]
    said = agreed.as_record()["guarantee"]["behind_shuffler"]  # type: ignore[index]
    assert "the number of honest devices" in said
    assert "--devices N" in said
    assert ASSUMPTION in said
    assert not any(digit in said for digit in "0123456789")


@pytest.mark.thorough
def test_a_plan_says_it_of_what_it_recommends_and_of_every_row() -> None:
    plan = make_plan(FrequencyNeeds(24, 50_000, 30, longitudinal=2.0))
    row = plan.recommended
    assert row is not None
    assert row.shuffled is not None
    assert behind_shuffler(row.shuffled) in list(recommendation(plan))
    assert ASSUMPTION in " ".join(recommendation(plan))
    records = [one.as_record()["behind_shuffler"] for one in plan.rows]
    assert any(one is None for one in records)
    for one, record in zip(plan.rows, records, strict=True):
        once = one_epoch(one.setting.protocol)
        if once is None:
            assert record is None
            continue
        assert record["devices"] == int(50_000 * one.setting.share)
        assert record["reports"] == one.setting.reports
        assert record["one_report"] == planned_epsilon(once, record["devices"]) <= once.local
        assert record["all_reports"] is None or record["one_report"] <= record["all_reports"] * 1.0001
    affine = make_plan(FrequencyNeeds(24, 50_000, 30, longitudinal=2.0, bits=1))
    assert affine.recommended is None or "shuffler" in " ".join(recommendation(affine))
