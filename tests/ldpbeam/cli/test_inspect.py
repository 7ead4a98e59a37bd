"""What ``ldpbeam inspect`` shows of reports, rejects and records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ldpbeam.cli.inspect import inspect_lines
from ldpbeam.cli.run import run_over_files
from ldpbeam.client import Device
from ldpbeam.collection.file import load_collection
from ldpbeam.collection.slices import NO_SLICES
from ldpbeam.durable.document import document
from ldpbeam.errors import UsageError
from ldpbeam.records.file_views import view_of
from ldpbeam.wire.codec import framed
from tests.ldpbeam.cli.calling import told
from tests.narrow import present

YAML = """\
name: screens
domain: {labels: [home, search, "a\\u202e[31mb"]}
protocol: grr
epsilon: 2
epoch: {length: 1h, origin: 2026-01-01T00:00:00Z, count: 50}
min_reports: 100
"""
DEVICES, EPOCHS = 400, 3


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection, its simulation with the truth, and a run over it with one broken file."""
    base = tmp_path_factory.mktemp("inspect")
    (base / "screens.yaml").write_text(YAML)
    fleet = ("--population", "zipf:1.1", "--devices", DEVICES, "--epochs", EPOCHS, "--truth")
    told("simulate", "--collection", base / "screens.yaml", *fleet, "--output", base / "sim")
    (base / "broken.pb").write_bytes(b"\x01\xff")
    inputs = (str(base / "sim" / "reports"), str(base / "broken.pb"))
    asked = {"files": inputs, "output": str(base / "out")}
    assert run_over_files((load_collection(base / "screens.yaml"),), asked) == 4
    return base


def shown(path: Path, limit: int = 2) -> tuple[str, list[str]]:
    view = present(view_of(path, limit))
    json.dumps(view.document)
    assert all(line.isprintable() for line in view.lines)
    return view.kind, list(view.lines)


def test_the_results_of_a_run(base: Path) -> None:
    kind, lines = shown(base / "out")
    assert shown(base / "out" / "run.json") == (kind, lines)
    text = "\n".join(lines)
    assert kind == "run"
    assert "ok_with_rejects (exit code 4)" in lines[0]
    assert "screens version 1 (digest " in lines[1]
    assert "A report tells at most ε = 2. Nothing is memoised: 50 reports of a device tell" in lines[1]
    assert "read 1,201 = counted 1,200 + late 0 + duplicate 0 + rejected 1" in lines
    assert "  rejected 1: malformed" in lines or "  rejected 1: truncated" in lines
    assert "  1 of them belong to no known collection and epoch" in lines
    assert "3 epochs, the last 2 of them:" in lines
    assert "  screens epoch 2 (2026-01-01T02:00:00Z): 400 counted" in lines
    assert "epoch 0" not in text
    assert f"ldpbeam report {base / 'out'}" in lines[-1]


def test_what_a_record_says_cannot_write_to_the_terminal(base: Path, tmp_path: Path) -> None:
    record = json.loads((base / "out" / "run.json").read_text())
    (tmp_path / "run.json").write_bytes(document({**record, "runner": "a\x1b[31mb\u202e"}))
    _, lines = shown(tmp_path)
    assert "a\ufffd[31mb\ufffd" in lines[0]


@pytest.mark.parametrize(
    ("name", "command"),
    [("screens.yaml", "check"), ("sim/truth.parquet", "export"), ("out/estimates", "export")],
)
def test_what_other_commands_show_is_named_with_them(base: Path, name: str, command: str) -> None:
    with pytest.raises(UsageError, match=f"ldpbeam {command}"):
        view_of(base / name, 2)


@pytest.mark.parametrize("content", [b"\xff", b"{}", b'{"schema": "ldpbeam.run/1", "accounting": 3}'])
def test_what_is_of_no_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"run\.json") as caught:
        view_of(tmp_path / "run.json", 2)
    assert caught.value.code == "E-USAGE-RESULTS"


def test_a_cut_table_is_a_reject(base: Path, tmp_path: Path) -> None:
    table = min((base / "out" / "estimates").iterdir())
    (tmp_path / "cut.parquet").write_bytes(table.read_bytes()[:-3])
    assert any("corrupt_file" in line for line in inspect_lines(tmp_path / "cut.parquet", (), 5))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"device,value\n1,2\n", "is text"),
        (b'{"a": 1}', "is JSON text"),
    ],
)
def test_a_file_of_another_format_is_refused_by_name(tmp_path: Path, content: bytes, named: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes").write_bytes(content)
    assert view_of(tmp_path / "in" / "notes", 2) is None
    with pytest.raises(UsageError, match=named) as caught:
        list(inspect_lines(tmp_path / "in" / "notes", [], 2))
    assert caught.value.code == "E-USAGE-INPUT"
    (tmp_path / "in" / "more").write_bytes(content)
    lines = list(inspect_lines(tmp_path / "in", [], 5))
    assert len(lines) == 2
    assert all("unsupported_format" in line and named in line for line in lines)


def test_reports_and_rejects_are_decoded_as_before(base: Path) -> None:
    assert view_of(base / "sim" / "reports", 2) is None
    assert view_of(base / "out" / "rejects", 2) is None
    assert view_of(base / "broken.pb", 2) is None
    lines = list(inspect_lines(base / "sim" / "reports", [base / "screens.yaml"], 3))
    assert "400 reports, screens" in lines[0]
    assert any("broken.pb" in line for line in inspect_lines(base / "out" / "rejects", [], 3))


def test_the_slice_of_a_report_is_shown_with_its_labels(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(YAML + "slices: {channel: [beta, release], country: ['Ö, =', other]}\n")
    sliced = load_collection(tmp_path / "c.yaml")
    messages = [
        Device.ephemeral(replace(sliced, slices=NO_SLICES)).report("home", 0),
        Device.ephemeral(sliced).report("home", 1, slice={"country": "Ö, =", "channel": "beta"}),
    ]
    (tmp_path / "reports.pb").write_bytes(b"".join(map(framed, map(present, messages))))
    whole, one = inspect_lines(tmp_path / "reports.pb", [tmp_path / "c.yaml"], 3)
    assert f"screens ({sliced.digest_hex}), epoch 0, id " in whole
    assert "), epoch 1, channel=beta, country=Ö, =, id " in one
    assert "supports 1 of 3 values" in one
