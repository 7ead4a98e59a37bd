"""``ldpbeam plan``: what it prints and writes, what it loads, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.file import load_collection
from ldpbeam.collection.slices import Slices
from ldpbeam.errors import CollectionError, LdpError
from tests.ldpbeam.cli.calling import told
from tests.narrow import present

SMALL = ("--values", 12, "--devices", 20_000, "--epochs", 10, "--epsilon-longitudinal", 2)
ARMS = ("--slice-shares", "arm=50%,50%")


def document(*arguments: object) -> Any:
    # JSON has no infinity, and no program can read one.
    return json.loads(told("plan", *arguments, "--json"), parse_constant=pytest.fail)


@pytest.mark.thorough
def test_the_written_collection_is_the_recommended_row_or_the_chosen_one(tmp_path: Path) -> None:
    target = tmp_path / "planned.yaml"
    found = document(*SMALL, "--output", target, "--name", "clicks", "--epoch", "6h")
    collection = load_collection(target)
    assert found["written"] == {"collection": str(target)}
    assert (collection.name, collection.epochs.length) == ("clicks", 21600)
    assert collection.protocol_name == found["recommended"]["protocol"]
    assert collection.epochs.origin % 86400 == 0
    number = next(i for i, row in enumerate(found["rows"], 1) if row["setting"] == "l_sue")
    told("plan", *SMALL, "--output", target, "--row", number, "--start", "2026-01-05")
    assert load_collection(target).protocol_name == "l_sue"
    assert load_collection(target).epochs.origin == 1_767_571_200  # midnight, UTC


def test_a_list_with_none_of_these_has_another(tmp_path: Path) -> None:
    labels, people, target = tmp_path / "l.txt", tmp_path / "p.csv", tmp_path / "c.yaml"
    labels.write_text("red\nnone of these\ngreen\n", "utf-8")
    people.write_text("v\n" + "green\n" * 6 + "red\n" * 3 + "mauve\n" + "\n", "utf-8")
    common = ("--domain", labels, "--cap", 8, "--epochs", 1)
    told("plan", *common, "--devices", 1000, "--output", target)
    assert load_collection(target).domain == Domain(3, ("red", "none of these", "green"), other=1)
    found = told("plan", *common, "--population", f"csv:{people}:v")
    assert f"{people}: column 'v': 1 cell with 1 value that the domain does not list" in found
    target.unlink()
    found = document(*common, "--population", f"csv:{people}:v", "--output", target)
    assert found["needs"]["values"] == 3
    assert found["needs"]["devices"] == 10
    assert load_collection(target).domain == Domain(3, ("red", "none of these", "green"), other=1)


@pytest.mark.thorough
def test_values_come_from_a_file_of_labels_a_collection_or_a_population(tmp_path: Path) -> None:
    labels, people = tmp_path / "labels.txt", tmp_path / "people.csv"
    labels.write_text("red\ngreen\n\nno\n", "utf-8")
    rest = ("--devices", 1000, "--cap", 8)
    target = tmp_path / "planned.yaml"
    assert document("--domain", labels, *rest, "--output", target)["needs"]["values"] == 3
    assert present(load_collection(target).domain).labels == ("red", "green", "no")
    assert document("--domain", target, *rest)["needs"]["values"] == 3
    people.write_text("d1,d2\n" + "a,a\na,b\nb,b\nc,c\n" * 5, "utf-8")
    found = document("--population", f"csv:{people}:d1..d2", "--cap", 8, "--output", target)
    assert (found["needs"]["values"], found["needs"]["devices"]) == (3, 20)
    assert found["needs"]["drawn_anew"] == [0, 0.25]
    # Frequencies 1/2, 1/4, 1/4.
    assert found["uniform_error"] == pytest.approx(((1 / 6) ** 2 / 3 + 2 * (1 / 12) ** 2 / 3) ** 0.5)
    assert present(load_collection(target).domain).labels == ("a", "b", "c")
    drawn = document("--population", "zipf:1.1:0.1", "--values", 30, "--devices", 50_000, "--cap", 8)
    assert drawn["needs"]["values"] == 30
    assert drawn["needs"]["drawn_anew"][0] == 0
    assert 0.05 < drawn["needs"]["drawn_anew"][1] < 0.1


@pytest.mark.thorough
def test_a_mean_is_a_need_of_its_own(tmp_path: Path) -> None:
    target, rest = tmp_path / "planned.yaml", ("--devices", 20_000, "--epochs", 6, "--cap", 2)
    found = document("--mean", "0..600", *rest, "--target-error", "1%", "--output", target)
    assert (found["result"], found["needs"]["maximum"], found["needs"]["target"]) == ("mean", 600, 6)
    names = {"one_bit_mean", "one_bit_rrpm", "laplace_mean", "piecewise_mean"}
    assert {row["protocol"] for row in found["rows"]} == names
    collection = load_collection(target)
    domain = present(collection.domain)
    assert (domain.whole, domain.size) == (True, 601)
    assert collection.protocol_name == found["recommended"]["protocol"]
    # A collection of a mean asks for the same, and so does its range without 0.
    again = document("--domain", target, *rest, "--target-error", 6)
    assert (again["needs"], again["rows"]) == (found["needs"], found["rows"])
    lines = told("plan", "--mean", 600, *rest).splitlines()
    assert lines[0].startswith("the mean of 0 .. 600, 20,000 devices in each epoch, 6 epochs")
    assert any("% range" in line for line in lines)
    people = tmp_path / "people.csv"
    people.write_text("d1,d2\n" + "0,0\n0,60\n600,600\n599,599\n" * 5, "utf-8")
    found = document("--population", f"csv:{people}:d1..d2", "--mean", 600, "--cap", 4)
    assert (found["needs"]["devices"], found["needs"]["drawn_anew"]) == (20, [0, 0.25])


def test_a_cap_is_about_whatever_changes_unless_it_is_asked_for_inputs() -> None:
    need = ("--values", 24, "--devices", 20_000, "--epochs", 365)
    strict = document(*need, "--cap", 6)
    assert (strict["needs"]["lifetime"], strict["needs"]["inputs_cap"]) == (6, None)
    inputs = document(*need, "--cap", 6, "--cap-of", "inputs")
    assert (inputs["needs"]["lifetime"], inputs["needs"]["inputs_cap"]) == (None, 6)
    assert strict["recommended"]["loss_any"] <= 6 < inputs["recommended"]["loss_any"]
    assert inputs["recommended"]["loss_inputs"] <= 6
    for found, name, limit in ((strict, "loss_any", "lifetime"), (inputs, "loss_inputs", "inputs_cap")):
        for row in found["rows"]:
            assert row["loss_inputs"] is not None
            over = row[name] is None or row[name] > 6 * (1 + 1e-9)
            assert over == (limit in row["missed"])
    text = told("plan", *need, "--cap", 6, "--cap-of", "inputs")
    assert "all reports about memoised inputs at most ε = 6" in text


def test_slices_are_planned_and_written_where_they_have_labels(tmp_path: Path) -> None:
    target = tmp_path / "planned.yaml"
    shares = ("--slice-shares", "arm=treatment:50%,control:50%", "--slice-shares", "country=80%,20%")
    found = document(*SMALL, *shares, "--target-difference", 2, "--output", target)["slices"]
    assert load_collection(target).slices == Slices.of({"arm": ["treatment", "control"]})
    assert found["smallest"]["labels"] == {"arm": "treatment", "country": None}
    assert (found["smallest"]["share"], found["largest"]["devices"]) == (0.1, 16_000)
    assert [(one["dimension"], one["epochs"]) for one in found["differences"]] == [
        (name, epochs) for name in ("arm", "country") for epochs in (1, 7, 10)
    ]
    assert found["wanted"] == 0.02
    said = told("plan", *SMALL, *shares, "--target-difference", 2)
    needed = found["differences"][0]["devices_needed"]
    assert f"For a difference of 2 points it takes {needed:,} devices in one epoch" in said
    assert document(*SMALL)["slices"] is None
    mean = ("--mean", 600, "--devices", 20_000, "--epochs", 1, "--cap", 2)
    assert document(*mean, *shares, "--target-difference", "1%")["slices"]["wanted"] == 6


def test_an_error_without_a_number_is_refused_as_before() -> None:
    twice = (*ARMS, *ARMS)
    for arguments in (twice, ("--target-error", "much"), ("--mean", "1..5"), ("--mean", "0")):
        done = CliRunner().invoke(cli, ["plan", "--devices", "9", *arguments])
        assert done.exit_code == 2
        assert arguments[0] in done.output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--devices", 10), "E-USAGE-OPTION", "how many values"),
        (("--values", 10), "E-USAGE-OPTION", "--devices N"),
        (("--values", 10, "--domain", "x", "--devices", 1), "E-USAGE-OPTION", "both say it"),
        (("--mean", 60, "--devices", 1, "--target-error", 60), "E-USAGE-OPTION", "end of the counter"),
        ((*SMALL, "--target-error", "1%"), "E-USAGE-OPTION", "percentage points"),
        (("--domain", "nowhere.txt", "--devices", 1), "E-USAGE-OPTION", "not a readable text"),
        (("--population", "syn", "--devices", 9), "E-USAGE-OPTION", "--values N"),
        (("--population", "csv:nowhere.csv:a"), "E-USAGE-POPULATION", "nowhere"),
        ((*SMALL, "--epsilon-first", 3), "E-USAGE-OPTION", "not below"),
        ((*SMALL, "--output", "x.yaml", "--row", 999), "E-USAGE-OPTION", "--row 999"),
        ((*SMALL, "--bits", 1, "--output", "x.yaml"), "E-USAGE-OPTION", "no setting"),
        ((*SMALL, "--target-difference", 2), "E-USAGE-OPTION", "Add --slice-shares"),
        ((*SMALL, "--target-difference", 100, *ARMS), "E-USAGE-OPTION", "between 0 and 100 points"),
        ((*SMALL, "--target-difference", "2%", *ARMS), "E-USAGE-OPTION", "--target-difference 2"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    arguments: tuple[object, ...], code: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LdpError) as caught:
        told("plan", *arguments)
    assert (caught.value.code, caught.value.exit_code) == (code, 2)
    assert text in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_no_collection_can_have_are_not_written(tmp_path: Path) -> None:
    target = tmp_path / "x.yaml"
    with pytest.raises(CollectionError, match=r"x.yaml:\d+: .*label 'a' more than once"):
        told("plan", *SMALL, "--slice-shares", "arm=a:50%,a:50%", "--output", target)
    assert not target.exists()


def test_a_table_is_no_list_of_labels(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("device,minutes\n1,20\n2,30\n")
    with pytest.raises(LdpError, match="E-USAGE-OPTION") as caught:
        told("plan", "--domain", table, "--devices", 9)
    assert f"--population csv:{table}:COLUMN" in str(caught.value)
    table.write_text("red\ngreen, or so\n")
    assert "2 values" in told("plan", "--domain", table, "--devices", 9)


STRINGS = ("--strings", "6:lower", "--devices", 20_000)


def test_strings_are_planned_and_written(tmp_path: Path) -> None:
    target = tmp_path / "words.yaml"
    found = document(*STRINGS, "--epsilon-longitudinal", 4, "--name", "words", "--output", target)
    collection = load_collection(target)
    assert found["result"] == "discovered"
    assert (collection.name, collection.protocol_name, collection.epochs.count) == ("words", "loloha", 365)
    assert found["lengths"] == [3, 5, 6]
    assert found["whole_strings"] == 0.5
    # One epoch needs no memo: all of the level goes into the one report, as into each first one of the other.
    once = document(*STRINGS, "--epsilon-longitudinal", 2, "--epochs", 1)
    assert once["smallest_share"] == pytest.approx(found["smallest_share"], rel=0.01)
    assert document("--strings", "6:lower", "--devices", 5)["smallest_share"] is None


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--values", 9), "--values has no meaning with --strings"),
        (("--rows", 12), "--rows has no meaning with --strings"),
        (("--strings", "16"), "'16' is no length with an alphabet"),
        (("--strings", "16:lowr"), "'lowr' is no alphabet"),
        (("--epsilon-first", 5, "--epsilon-longitudinal", 4), "epsilon_first"),
    ],
)
def test_strings_with_options_of_other_values_are_refused(more: tuple[object, ...], says: str) -> None:
    result = CliRunner().invoke(cli, ["plan", *map(str, (*STRINGS, *more))])
    assert result.exit_code != 0
    assert says in result.output + str(result.exception)
