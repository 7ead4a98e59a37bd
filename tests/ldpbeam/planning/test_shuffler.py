"""What plans, checks, explanations and run.json say of a shuffler: a figure only where devices are known."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ldpbeam.collection.file import parse_collection
from ldpbeam.planning.shuffler import ShuffledPrivacy, behind_shuffler, of_collection
from ldpbeam.promise.promise import YEAR
from ldpbeam.promise.statements import epsilon
from ldpbeam.shuffling.randomiser import many_epochs, one_epoch
from ldpbeam.shuffling.shuffle_plan import planned_epsilon
from tests.narrow import present

ONE = "name: x\ndomain: {size: 9}\nprotocol: %s\n%s\nepoch: {length: 1d%s}\n"
BOTH = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0"


def test_few_epochs_and_few_devices_are_those_of_the_collection() -> None:
    kept = parse_collection(
        ONE % ("oue", "epsilon: 1.0", ", count: 40") + "participation: {reports: 4, of: 40}\n"
    )
    found = present(of_collection(kept, 100_000))
    once = present(one_epoch(kept.protocol))
    assert (found.devices, found.reports, found.functions) == (10_000, 4, 1)
    assert found.one_report == planned_epsilon(once, 10_000)
    assert found.all_reports == planned_epsilon(once, 10_000, 4) > found.one_report
    for count, reports in ((", count: 7", 7), ("", YEAR)):
        found = present(of_collection(parse_collection(ONE % ("oue", "epsilon: 1.0", count)), 1_000))
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
    classes = present(one_epoch(kind, renamed=True))
    assert (found.renaming.functions, found.renaming.renaming) == (4, None)
    assert found.renaming.one_report == planned_epsilon(classes, 100_000) < found.one_report
    assert f"; at most ε = {epsilon(found.renaming.one_report)} and ε = " in text
    assert (
        "if the shuffler also renames hash symbols, since about 1 in 4 of the devices is then alike" in text
    )
    two = present(of_collection(parse_collection(ONE % ("loloha", f"g: 2\n{BOTH}", "")), 100_000))
    assert two.renaming is None
    # Two reports of few devices: never more than what is known without a shuffler.
    few = present(ShuffledPrivacy.of(kind, 100, Fraction(1), 2))
    assert kind.losses is not None
    assert few.all_reports == kind.losses.any_changes(2)


@pytest.mark.parametrize("family", ["linear", "affine"])
def test_one_report_in_a_life_shows_no_permanent_answer_twice(family: str) -> None:
    """Then a memoising protocol is a one-round one at ε1, and its hash function is as fresh as the rest."""
    text = ONE % ("loloha", f"g: 3\nhash_family: {family}\n{BOTH}", ", count: %d")
    once, single = parse_collection(text % 40 + "participation: {reports: 1, of: 40}\n"), text % 1
    alone = present(one_epoch(once.protocol, alone=True))
    for agreed, devices in ((once, 400_000), (parse_collection(single), 10_000)):
        found = present(of_collection(agreed, devices))
        assert (found.devices, found.reports, found.functions, found.renaming) == (10_000, 1, 1, None)
        assert found.one_report == found.all_reports == planned_epsilon(alone, 10_000) < alone.local / 10
        assert "how much less follows" in agreed.as_record()["guarantee"]["behind_shuffler"].lower()  # type: ignore[index]
    twice = of_collection(parse_collection(text % 40 + "participation: {reports: 2, of: 40}\n"), 200_000)
    assert twice is None or twice.one_report > 2 * planned_epsilon(alone, 10_000)
