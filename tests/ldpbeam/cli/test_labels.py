"""Labels as people write them, in any script: every command takes what `check` takes."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import ldpbeam
from ldpbeam.cli.main import cli
from ldpbeam.errors import CollectionError

LABELS = (
    "ok\u200e",  # a mark of direction, as it comes from a spreadsheet or a chat
    "\u05e2\u05d1\u05e8\u05d9\u05ea\u200f",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629\u061c",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian with a joiner that keeps letters apart
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family, joined
    "\U0001fae9",  # newer than the Unicode of Python 3.11
    "\U0001f600",
    "Schiff\u00adfahrt",
    "\u202eevil\u202c",
    "\u0e44\u0e17\u0e22",
    "\u304b\u3099",
    "\u304c",
    "\ufeffmark",
    "\ue000",
    "\U000e0067",
    "x" * 2_500,
    "",
    " blank ",
    "a,b;\"c\"'d'",
    "<b>&amp;</b>",
    "{{ label }}",
    "=cmd|'/C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "-5",
    "+.5e3",
    "1e5",
    "no",
    "null",
    "1:30",
    "\\n",
    "%s %d {0}",
    "C:\\x",
    "none of these",
)
CONTENT: dict[str, Any] = {
    "name": "odd",
    "owner": LABELS[0],
    "domain": {"labels": LABELS, "other": LABELS[-1]},
    "protocol": "grr",
    "epsilon": 8.0,
    "epoch": {"length": "1d", "origin": "2026-01-01T00:00:00Z"},
    "allowed_lateness": "1d",
}
UNPRINTABLE = (
    "a\nb",
    "a\rb",
    "a\tb",
    "\x00",
    "\x1b[2J",
    "\x7f",
    "\x85",
    "\x9b",
    "a\u2028b",
    "\u2029",
    "\ud83d",
    "\ude00\ud83d",
)


def call(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    assert done.exit_code == code, (arguments, done.output, done.exception)
    return done


def harmless(label: str) -> str:
    """By hand: an apostrophe before what is no number and begins as a formula does."""
    try:
        float(label)
    except ValueError:
        return f"'{label}" if label.startswith(("=", "+", "-", "@", "\t", "\r")) else label
    return label


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(True, id="escaped"),
        pytest.param(False, id="as-is", marks=pytest.mark.thorough),
    ],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs of devices that hold the labels in turn, read from a CSV file, counted."""
    folder = tmp_path_factory.mktemp("labels")
    (folder / "c.yaml").write_text(json.dumps(CONTENT, ensure_ascii=request.param, indent=1), "utf-8")
    with (folder / "held.csv").open("w", encoding="utf-8", newline="") as file:
        held = [[label] for label in LABELS if label] * 60
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["v"], *held])
    call("check", folder / "c.yaml")
    held_by = ("--population", f"csv:{folder / 'held.csv'}:v", "--epochs", 2, "--seed", 1)
    call("simulate", "--collection", folder / "c.yaml", *held_by, "--truth", "--output", folder / "s")
    call(
        "run",
        "--collection",
        folder / "c.yaml",
        "--input",
        folder / "s" / "reports",
        "--output",
        folder / "r",
    )
    return folder


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_file_may_escape_them_or_hold_them_as_they_are(tmp_path: Path, ascii_only: bool) -> None:
    """Either way it is the same collection, so what holds of one file holds of the other."""
    path = tmp_path / "c.yaml"
    path.write_text(json.dumps(CONTENT, ensure_ascii=ascii_only, indent=1), "utf-8")
    read = ldpbeam.load_collection(path)
    assert read.domain is not None
    assert read.domain.labels is not None
    assert list(read.domain.labels) == list(LABELS)
    assert (read.domain.other, read.owner) == (len(LABELS) - 1, LABELS[0])


@pytest.mark.cases(1)
def test_they_are_counted_under_their_own_names(run: Path) -> None:
    """The truth, the estimates and both exports have the labels as they are; nothing is cleaned away."""
    truth = pq.read_table(run / "s" / "truth.parquet").to_pylist()
    assert [row["label"] for row in truth] == [*LABELS] * 2
    assert {row["count"] for row in truth if row["label"]} == {60}
    call("export", run / "r", "--output", run / "all.parquet")
    table = pq.read_table(run / "all.parquet")
    assert table["label"].to_pylist() == [*LABELS] * 2
    held = [row["estimate"] for row in table.to_pylist() if row["label"]]
    assert max(abs(one - 1 / (len(LABELS) - 1)) for one in held) < 0.02
    for output in ("all.csv", None):
        if output is None:
            text = call("export", run / "r").stdout
        else:
            call("export", run / "r", "--output", run / output)
            text = (run / output).read_text("utf-8")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert [row["label"] for row in rows] == [harmless(label) for label in LABELS] * 2
        assert [float(row["estimate"]) for row in rows] == table["estimate"].to_pylist()
        assert any(row["estimate"].startswith("-") for row in rows)
    rolled = list(csv.DictReader(io.StringIO(call("export", run / "r", "--every", 2).stdout, newline="")))
    assert [row["label"] for row in rolled] == [harmless(label) for label in LABELS]


@pytest.mark.thorough
def test_the_page_shows_them_cleaned(run: Path) -> None:
    call("report", run / "r", "--truth", run / "s" / "truth.parquet", "--page", run / "page.html")
    text = (run / "page.html").read_text("utf-8")
    odd = {f"U+{ord(sign):04X}" for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp")}
    assert odd <= {"U+000A", "U+200D", "U+200C"}
    assert "could not be read" not in text
    assert "ok\ufffd" in text
    assert "x" * 59 + "…" in text
    assert "<b>&amp;</b>" not in text


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "r"),
        ("compare", "r", "--json"),
        ("inspect", "c.yaml"),
        ("inspect", "r"),
        ("inspect", "s/reports", "--collection", "c.yaml"),
        ("explain", "c.yaml"),
        ("definition", "c.yaml"),
        # Two interpreters that draw from a thousand devices.
        pytest.param(("audit", "c.yaml", "--draws", "200"), marks=pytest.mark.thorough),
    ],
    ids=" ".join,
)
def test_every_command_goes_on(run: Path, command: tuple[str, ...]) -> None:
    """And shows no sign that would move a cursor or turn the direction of a line."""
    given = [run / one if one.startswith(("r", "s/", "c.")) else one for one in command]
    shown = call(*given).output
    turning = {f"U+{ord(sign):04X}" for sign in shown if unicodedata.category(sign) == "Cf"}
    assert turning <= {"U+200C", "U+200D"}, command


def test_groups_take_them(run: Path) -> None:
    """As YAML or as JSON, with emoji as two escapes."""
    for ascii_only in (True, False):
        (run / "groups.yaml").write_text(json.dumps({"all": LABELS}, ensure_ascii=ascii_only), "utf-8")
        (row,) = csv.DictReader(
            io.StringIO(call("export", run / "r", "--group", run / "groups.yaml", "--every", 2).stdout)
        )
        assert abs(float(row["estimate"]) - 1) < 0.1


@pytest.mark.thorough
def test_a_plan_takes_what_its_check_takes(tmp_path: Path) -> None:
    listed = [label for label in LABELS if label.strip() == label and label]
    (tmp_path / "labels.txt").write_text("".join(f"{label}\n" for label in listed), "utf-8")
    need = ("--devices", 100_000, "--epochs", 5, "--lifetime-epsilon", 5)
    call("plan", "--domain", tmp_path / "labels.txt", *need, "--output", tmp_path / "c.yaml")
    planned = ldpbeam.load_collection(tmp_path / "c.yaml").domain
    assert planned is not None
    assert planned.labels == tuple(listed)
    call("check", tmp_path / "c.yaml")


@pytest.mark.parametrize("key", ["labels", "owner"])
@pytest.mark.parametrize("label", UNPRINTABLE, ids=ascii)
def test_control_signs_are_refused_with_their_line(tmp_path: Path, label: str, key: str) -> None:
    """Escaped, as json.dumps writes them; each is named, and nothing of it reaches the terminal."""
    content: dict[str, Any] = {
        "name": "odd",
        "owner": "me" if key == "labels" else label,
        "domain": {"labels": ["ok", label if key == "labels" else "b"]},
        "protocol": "grr",
        "epsilon": 8.0,
        "epoch": {"length": "1d"},
    }
    (tmp_path / "c.json").write_text(json.dumps(content, indent=1), "utf-8")
    with pytest.raises(CollectionError) as caught:
        ldpbeam.load_collection(tmp_path / "c.json")
    assert caught.value.code == "E-COLLECTION-VALUE"
    assert caught.value.where == f"{tmp_path / 'c.json'}:{4 if key == 'labels' else 3}"
    assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in str(caught.value))
