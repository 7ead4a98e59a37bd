"""``ldpbeam check``: promise, expected errors, changes, and several collections."""

from __future__ import annotations

import json
from math import exp, sqrt
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.errors import LdpError
from ldpbeam.planning.collection_check import change, expected
from ldpbeam.planning.needs import MeanNeeds
from ldpbeam.planning.plan import make_plan
from ldpbeam.planning.sentences import interval_words
from tests.conftest import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
MINUTES = (EXAMPLES / "minutes_in_app.yaml").read_text("utf-8")


def call(*arguments: object) -> tuple[str, str]:
    done = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def document(*arguments: object) -> Any:
    return json.loads(call("check", *arguments, "--json")[0])


def test_promise_digest_and_errors_are_stated() -> None:
    out, err = call("check", EXAMPLES / "first_choice.yaml", "--devices", 10_000)
    assert "sound, first_choice version 1, digest 31f8771ca4dd8ba8" in out
    assert "A first report tells at most ε = 1.\n" in out
    assert "Two reports tell at most ε = 2.728, whatever changed between them." in out
    assert "ε = 8 about which values it held, to somebody who knows when each changed" in out
    assert err == ""
    (found,) = document(EXAMPLES / "first_choice.yaml", "--devices", 10_000)["collections"]
    # L-SUE is SUE(ε1) in one report: p = e^½/(e^½+1), V(f) at f = 1/4.
    p = exp(0.5) / (exp(0.5) + 1)
    (error,) = found["expected"]
    assert error["half_width"] == pytest.approx(
        1.959964 * sqrt(p * (1 - p) / (2 * p - 1) ** 2 / 10_000), rel=1e-3
    )
    assert error["even_half_width"] == pytest.approx(error["half_width"], rel=1e-3)  # bits are symmetric
    assert found["digest"] == "31f8771ca4dd8ba8"
    assert found["guarantee"]["cap_over_values"] == pytest.approx(8)


DAILY = "name: a\ndomain: {size: 4}\nprotocol: grr\nepsilon: 1.0\nepoch: {length: 1d}\n"


@pytest.mark.parametrize(
    ("allowed", "line"),
    [("0", "a report counts until the end of its epoch"), ("36h", "until 36h after the end of its epoch")],
)
def test_until_when_reports_count_and_if_that_is_too_soon(tmp_path: Path, allowed: str, line: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"{DAILY}allowed_lateness: {allowed}\n", "utf-8")
    out, err = call("check", file)
    assert line in out
    assert ("allowed_lateness is 0: " in err) == ("Write allowed_lateness: 1d" in err) == (allowed == "0")
    (found,) = document(file)["collections"]
    assert [one["code"] for one in found["warnings"]] == ["W-COLLECTION-LATENESS"] * (allowed == "0")


@pytest.mark.parametrize(("protocol", "worse"), [("piecewise_mean", True), ("one_bit_mean", False)])
def test_the_worst_values_of_a_mean_stand_beside_even_ones(
    tmp_path: Path, protocol: str, worse: bool
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        f"name: a\ndomain: {{size: 101}}\nprotocol: {protocol}\nepsilon: 4\nepoch: {{length: 1d}}\n"
    )
    out, _ = call("check", file, "--devices", 5000)
    (error,) = document(file, "--devices", 5000)["collections"][0]["expected"]
    also = f", up to ±{error['worst_half_width']:.4g} where half of them are 0 and half the largest"
    width = f"the mean of 0 .. 100 ±{error['half_width']:.4g} (95 %) for values spread evenly"
    assert f"{width}{also if worse else ''}\n" in out
    plan = make_plan(MeanNeeds(101, 5000, 1, lifetime=4.0))
    (row,) = [one for one in plan.rows if one.setting.name == protocol]
    assert ("up to ±" in interval_words(row, plan.needs)) == worse


def test_errors_of_sampled_attributes_are_those_of_theory() -> None:
    several = parse_collection(
        "name: a\nattributes: [{name: x, domain: {size: 3}}, {name: y, domain: {size: 40}}]\n"
        "allocation: sample\nprotocol: oue\nepsilon: 1.0\nepoch: {length: 1d}\n"
    )
    both = expected(several, 1000)
    assert [part.attribute for part in both] == ["x", "y"]
    q = 1 / (exp(1) + 1)
    for part in both:
        f = 1 / sum(1 / rank for rank in range(1, part.values + 1))
        per_report = (f * 0.25 + (1 - f) * q * (1 - q)) / (0.5 - q) ** 2 + 0.5 * f * (1 - f)
        assert part.half_width == pytest.approx(1.959964 * sqrt(per_report / 500), rel=0.05)  # some end at 0


def test_a_change_that_devices_must_know_needs_a_version(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(MINUTES, "utf-8")
    new.write_text(MINUTES.replace("epsilon_first: 1.0", "epsilon_first: 0.9"), "utf-8")
    with pytest.raises(LdpError) as caught:
        call("check", new, "--against", old)
    assert (caught.value.code, caught.value.exit_code) == ("E-COLLECTION-VERSION", 3)
    assert "Write version: 2." in str(caught.value)
    new.write_text(new.read_text("utf-8").replace("version: 1", "version: 2"), "utf-8")
    out, _ = call("check", new, "--against", old)
    assert "devices must know: epsilon_first: 1.0 → 0.9" in out
    assert "can lose up to ε = 12" in out
    assert "devices need the new collection" in out
    # What devices need not know.
    new.write_text(MINUTES.replace("24h", "48h").replace("origin", "origin"), "utf-8")
    found = document(new, "--against", old)["change"]
    assert found == {"devices": [], "server": ["allowed_lateness_seconds: 86400 → 172800"]}
    assert "the digest d763b721438b2148 is the same" in call("check", new, "--against", old)[0]
    assert "nothing changed" in call("check", old, "--against", old)[0]


def test_a_changed_list_says_what_was_added_and_removed() -> None:
    text = "name: a\nprotocol: oue\nepsilon: 1.0\nepoch: {length: 1d}\n"
    labels = [f"v{i}" for i in range(40)]

    def of(labels: list[str], other: str) -> Collection:
        return parse_collection(f"{text}domain: {{labels: {labels}, other: {other}}}\n")

    moved = [*labels[2:7], "new", *labels[8:], "v0", "v1"]
    assert change(of(labels, "v3"), of(moved, "v3")).devices == (
        "domain.labels: added 'new', removed 'v7', in another order",
    )
    more = change(of(labels, "v3"), of(labels + [f"w{i}" for i in range(7)], "w0")).devices
    assert more == (
        "domain.size: 40 → 47",
        "domain.labels: added 'w0', 'w1', 'w2', 'w3', 'w4' and 2 more",
        "domain.other: v3 → w0",
    )

    def several(*names: str, size: int = 3) -> Collection:
        attributes = ", ".join(f"{{name: {name}, domain: {{size: {size}}}}}" for name in names)
        return parse_collection(f"{text}attributes: [{attributes}]\nallocation: sample\n")

    assert change(several("x", "y"), several("y", "x", "z")).devices[:1] == (
        "attributes: added 'z', in another order",
    )
    assert "domain.size of x: 3 → 4" in change(several("x", "y"), several("x", "y", size=4)).devices


def test_combinations_of_slices_have_few_devices(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(DAILY + "slices: {arm: [x, y], country: [DE, FR, other]}\n", "utf-8")
    out, err = call("check", file, "--devices", 45)
    assert "  slices: 6 combinations, with 8 of 45 devices each if all are equally frequent\n" in out
    # 1 + 1/2 + … + 1/6 = 2.45: of 45 devices the rarest combination has 45/2.45/6 = 3.06, of 44 it has 2.99.
    assert "W-COLLECTION-SLICES" not in err
    out, err = call("check", file, "--devices", 44)
    assert "the rarest has 3 of 44 devices" in err
    assert "other, or leave a dimension out. [W-COLLECTION-SLICES]" in err
    (found,) = document(file, "--devices", 44)["collections"]
    assert found["devices_of_combination"] == pytest.approx(44 / 6)
    assert "W-COLLECTION-SLICES" in [one["code"] for one in found["warnings"]]
    (without,) = document(EXAMPLES / "first_choice.yaml")["collections"]
    assert without["devices_of_combination"] is None


def test_devices_must_know_slices_whose_digests_stay(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(DAILY + "slices: {country: [DE, FR]}\n", "utf-8")
    new.write_text(DAILY + "slices: {country: [FR, AT, DE], arm: [x, y]}\n", "utf-8")
    out, _ = call("check", new, "--against", old)
    assert "devices must know: slices.country: added 'AT', in another order\n" in out
    assert "devices must know: slices.arm: none → ['x', 'y']\n" in out
    digest = load_collection(new).digest_hex
    same = f"the digest {digest} is the same: devices keep their memos"
    still = "reports of devices with the old file still count, where they say a label and in the whole"
    assert out.splitlines()[-2:] == [same, still]
    back, _ = call("check", old, "--against", new)
    lost = "reports of 9 slices become unknown_collection, the first of arm=x: keep a label as long as"
    assert back.splitlines()[-1] == f"{lost} devices say it"


def test_several_collections_of_a_fleet_add_up(tmp_path: Path) -> None:
    names = ("minutes_in_app", "first_choice", "screen_seconds")
    files = [EXAMPLES / f"{name}.yaml" for name in names]
    found = document(*files[:2])["together"]
    assert found["cap_over_inputs"] == pytest.approx(6 + 8)
    assert found["first_reports"] == pytest.approx(2)
    assert found["owners"] == ["telemetry@example.com"]
    found = document(*files)["together"]
    assert found["cap_over_inputs"] is None
    assert (found["without_cap"], found["without_owner"]) == (["screen_seconds"], ["screen_seconds"])
    retired = tmp_path / "retired.yaml"
    text = MINUTES.replace("name: minutes", "name: old_minutes") + "retired: 2027-01-01T00:00:00Z\n"
    retired.write_text(text, "utf-8")
    out, _ = call("check", files[0], retired)
    assert f"{load_collection(retired).name} is retired on 2027-01-01T00:00:00Z" in out
    with pytest.raises(LdpError) as caught:
        call("check", files[0], files[0])
    assert caught.value.code == "E-COLLECTION-VERSION"


def test_a_life_with_few_reports_has_one_bound_for_all_of_them(tmp_path: Path) -> None:
    text = (
        "name: rare\ndomain: {size: 6}\nprotocol: oue\nepsilon: 1.5\nparticipation: {reports: 2, of: 30}\n"
        "epoch: {length: 1d}\n"
    )
    file = tmp_path / "rare.yaml"
    file.write_text(text, "utf-8")
    out, _ = call("check", file, "--devices", 30_000)
    assert (
        "in 2 of its 30 epochs, drawn for life: all its reports tell at most ε = 3, whatever changes" in out
    )
    assert "Nothing is memoised" not in out
    both = document(file, EXAMPLES / "first_choice.yaml")["together"]
    assert both["cap_over_inputs"] == pytest.approx(3 + 8)
    assert both["without_cap"] == []
    changed = change(parse_collection(text), parse_collection(text.replace("reports: 2", "reports: 3")))
    assert changed.devices == ("participation.reports: 2 → 3",)
    memoised = MINUTES.replace("6h,", "6h, count: 9,") + "participation: {reports: 9, of: 9}\n"
    file.write_text(memoised, "utf-8")
    assert "in 9 of its 9 epochs, drawn for life: all its reports tell at most ε = " in call("check", file)[0]


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(LdpError) as caught:
        call("check", "a.yaml", "b.yaml", "--against", "c.yaml")
    assert (caught.value.code, caught.value.exit_code) == ("E-USAGE-COLLECTION", 2)


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("months.yaml").write_text(MINUTES.replace("6h", "1M"), "utf-8")
    Path("good.yaml").write_text(MINUTES, "utf-8")
    command = ["check", "months.yaml", "good.yaml", "nowhere.yaml"]
    done = CliRunner().invoke(cli, command)
    (told,) = done.stderr.splitlines()
    assert "months.yaml:12: " in told
    assert told.endswith("[E-COLLECTION-VALUE]")
    assert isinstance(done.exception, LdpError)
    assert "nowhere.yaml" in str(done.exception)
    assert (done.exception.code, done.exception.exit_code) == ("E-COLLECTION-FILE", 3)
    assert done.stdout == ""
