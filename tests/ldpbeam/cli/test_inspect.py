"""What ``ldpbeam inspect`` shows of everything that the commands write, read and take."""

from __future__ import annotations

import bz2
import json
from pathlib import Path

import pytest

from ldpbeam.cli.inspect import inspect_lines
from ldpbeam.cli.run import run_over_files
from ldpbeam.cli.simulate import SimulateOptions, simulate_reports
from ldpbeam.collection.file import load_collection
from ldpbeam.durable.document import document
from ldpbeam.errors import CollectionError, UsageError
from ldpbeam.records.file_views import view_of

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
    simulate_reports(
        SimulateOptions(base / "screens.yaml", "zipf:1.1", DEVICES, EPOCHS, base / "sim", truth=True)
    )
    (base / "broken.pb").write_bytes(b"\x01\xff")
    inputs = (str(base / "sim"), str(base / "broken.pb"))
    asked = {"files": inputs, "output": str(base / "out")}
    assert run_over_files((load_collection(base / "screens.yaml"),), asked) == 4
    return base


def shown(path: Path, limit: int = 2) -> tuple[str, list[str]]:
    view = view_of(path, limit)
    assert view is not None
    json.dumps(view.document)
    assert all(line.isprintable() for line in view.lines)
    return view.kind, list(view.lines)


def test_the_results_of_a_run(base: Path) -> None:
    kind, lines = shown(base / "out")
    for name in ("out/run.json", "out/accounting"):
        assert shown(base / name) == (kind, lines)
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


def test_a_quote_in_a_path_stays_inside_the_string(base: Path, tmp_path: Path) -> None:
    file = tmp_path / "it's.parquet"
    file.write_bytes(next((base / "out" / "estimates").iterdir()).read_bytes())
    assert f"'{tmp_path}/it''s.parquet'" in shown(file)[1][-1]


def test_the_accounting_of_an_epoch(base: Path) -> None:
    kind, lines = shown(min((base / "out" / "accounting").iterdir()))
    assert kind == "epoch"
    assert "collection screens, version 1, " in lines[0]
    assert "epoch 0, epoch_start 2026-01-01T00:00:00Z, epoch_end 2026-01-01T01:00:00Z, " in lines[0]
    assert "read 400, counted 400, late 0, duplicate 0" in lines[0]


def test_a_simulation(base: Path) -> None:
    kind, lines = shown(base / "sim")
    assert shown(base / "sim" / "simulation.json") == (kind, lines)
    assert kind == "simulation"
    assert "reports 1200" in lines[0]
    assert "population zipf:1.1" in lines[0]
    kind, lines = shown(base / "sim" / "truth.parquet")
    assert (kind, lines[0].rpartition(": ")[2]) == ("truth", "truth, 9 rows")


def test_what_a_record_says_cannot_write_to_the_terminal(base: Path, tmp_path: Path) -> None:
    record = json.loads((base / "sim" / "simulation.json").read_text())
    (tmp_path / "simulation.json").write_bytes(document({**record, "population": "a\x1b[31mb\u202e"}))
    _, lines = shown(tmp_path / "simulation.json")
    assert "population a\ufffd[31mb\ufffd" in lines[0]


def test_what_is_of_no_kind_is_refused(tmp_path: Path) -> None:
    for name, content in (
        ("a.json", b"{"),
        ("a.json", b"[1, 2]"),
        ("run.json", b"\xff"),
        ("run.json", b"{}"),
        ("run.json", b'{"schema": "ldpbeam.run/1", "accounting": 3}'),
        ("simulation.json", b"{}"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=name) as caught:
            view_of(tmp_path / name, 2)
        assert caught.value.code == ("E-USAGE-RESULTS" if name == "run.json" else "E-USAGE-INPUT")


def test_what_was_damaged_is_said(base: Path, tmp_path: Path) -> None:
    accounting, table = (min((base / "out" / name).iterdir()) for name in ("accounting", "estimates"))
    changed = tmp_path / accounting.name
    changed.write_text(accounting.read_text().replace('"closed": true', '"closed": false'))
    with pytest.raises(UsageError, match=r"not what was written.*\[E-USAGE-INPUT\]"):
        view_of(changed, 5)
    (tmp_path / "cut.parquet").write_bytes(table.read_bytes()[:-3])
    assert any("corrupt_file" in line for line in inspect_lines(tmp_path / "cut.parquet", (), 5))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"device,value\n1,2\n", "is text"),
        (bz2.compress(b"reports"), "is bzip2"),
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


def test_a_collection_with_an_error_says_which(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(YAML.replace("grr", "grrr"))
    with pytest.raises(CollectionError, match="Did you mean grr"):
        view_of(tmp_path / "c.yaml", 2)


def test_reports_and_rejects_are_decoded_as_before(base: Path) -> None:
    assert view_of(base / "sim" / "reports", 2) is None
    assert view_of(base / "out" / "rejects", 2) is None
    assert view_of(base / "broken.pb", 2) is None
    lines = list(inspect_lines(base / "sim" / "reports", [base / "screens.yaml"], 3))
    assert "400 reports, screens" in lines[0]
    assert any("broken.pb" in line for line in inspect_lines(base / "out" / "rejects", [], 3))
