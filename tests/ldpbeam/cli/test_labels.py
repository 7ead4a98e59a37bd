"""Labels as people write them, in any script: every command takes what `check` takes."""

from __future__ import annotations

import csv
import json
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.errors import CollectionError
from tests.ldpbeam.cli.calling import rows, told

LABELS = (
    "ok\u200e",  # a mark of direction, as it comes from a spreadsheet or a chat
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian with a joiner that keeps letters apart
    "\U0001fae9",  # newer than the Unicode of Python 3.11
    "\u202eevil\u202c",
    "\u304b\u3099",
    "\u304c",
    "\ufeffmark",
    "x" * 2_500,
    "",
    " blank ",
    "a,b;\"c\"'d'",
    "<b>&amp;</b>",
    "=cmd|'/C calc'!A0",
    "-5",
    "no",
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
UNPRINTABLE = ("a\nb", "\x1b[2J", "a\u2028b", "\ud83d")


def harmless(label: str) -> str:
    """By hand: an apostrophe before what is no number and begins as a formula does."""
    try:
        float(label)
    except ValueError:
        return f"'{label}" if label.startswith(("=", "+", "-", "@", "\t", "\r")) else label
    return label


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs of devices that hold the labels in turn, read from a CSV file, counted."""
    folder = tmp_path_factory.mktemp("labels")
    (folder / "c.yaml").write_text(json.dumps(CONTENT, ensure_ascii=False, indent=1), "utf-8")
    with (folder / "held.csv").open("w", encoding="utf-8", newline="") as file:
        held = [[label] for label in LABELS if label] * 60
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["v"], *held])
    told("check", folder / "c.yaml")
    held_by = ("--population", f"csv:{folder / 'held.csv'}:v", "--epochs", 2, "--seed", 1)
    told("simulate", "--collection", folder / "c.yaml", *held_by, "--truth", "--output", folder / "s")
    given = ("--collection", folder / "c.yaml", "--input", folder / "s" / "reports")
    told("run", *given, "--output", folder / "r")
    return folder


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_file_may_escape_them_or_hold_them_as_they_are(tmp_path: Path, ascii_only: bool) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(json.dumps(CONTENT, ensure_ascii=ascii_only, indent=1), "utf-8")
    read = ldpbeam.load_collection(path)
    assert read.domain is not None
    assert read.domain.labels is not None
    assert list(read.domain.labels) == list(LABELS)
    assert (read.domain.other, read.owner) == (len(LABELS) - 1, LABELS[0])


def test_they_are_counted_under_their_own_names(run: Path) -> None:
    truth = pq.read_table(run / "s" / "truth.parquet").to_pylist()
    assert [row["label"] for row in truth] == [*LABELS] * 2
    assert {row["count"] for row in truth if row["label"]} == {60}
    told("export", run / "r", "--output", run / "all.parquet")
    table = pq.read_table(run / "all.parquet")
    assert table["label"].to_pylist() == [*LABELS] * 2
    held = [row["estimate"] for row in table.to_pylist() if row["label"]]
    assert max(abs(one - 1 / (len(LABELS) - 1)) for one in held) < 0.02
    shown = rows("export", run / "r")
    assert [row["label"] for row in shown] == [harmless(label) for label in LABELS] * 2
    assert [float(row["estimate"]) for row in shown] == table["estimate"].to_pylist()
    assert any(row["estimate"].startswith("-") for row in shown)


def test_groups_take_them(run: Path) -> None:
    with (run / "groups.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("group", "value"), *(("all", label) for label in LABELS)])
    (row,) = rows("export", run / "r", "--group", run / "groups.csv", "--every", 2)
    assert abs(float(row["estimate"]) - 1) < 0.1


@pytest.mark.parametrize(
    ("key", "label"), list(zip(["labels", "owner"] * 2, UNPRINTABLE, strict=True)), ids=ascii
)
def test_control_signs_are_refused_with_their_line(tmp_path: Path, label: str, key: str) -> None:
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
