"""What a stream says: per epoch, with the time, and only what has changed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ldpbeam.accounting import Accounting
from ldpbeam.cli import run as running
from ldpbeam.cli.run import StreamLines
from ldpbeam.engine.run import Progress
from ldpbeam.engine.status import Status
from ldpbeam.job.config import RunConfig
from ldpbeam.records.outcome import RunOutcome
from ldpbeam.records.run_output import run_record
from ldpbeam.records.run_record import RunRecord
from tests.pipelines.running import collection

ONE = collection("grr", name="one")


def record(*entries: tuple[int | None, str, int]) -> RunRecord:
    keyed = [
        ((("", None) if epoch is None else (ONE.digest_hex, epoch), what), n) for epoch, what, n in entries
    ]
    config = RunConfig.parsed((ONE,), output="out")
    return run_record(config, RunOutcome(Accounting.from_entries(keyed), []), 1.0, status="running")


def lines(shown: StreamLines, now: RunRecord) -> list[str]:
    found = list(shown.changed(now))
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line) for line in found)
    return [line.partition(" ")[2] for line in found]


def test_only_what_has_changed_is_said() -> None:
    shown = StreamLines(None)
    first = record((3, "read", 1500), (3, "counted", 1499), (3, "late", 1))
    begin = first.accounting.epochs[0].epoch_start
    assert lines(shown, first) == [f"one epoch 3 ({begin}): read 1,500, counted 1,499, late 1"]
    assert lines(shown, first) == []
    second = record(
        *((3, "read", 1502), (3, "counted", 1500), (3, "late", 1), (3, "rejected.malformed", 1)),
        *((4, "read", 7), (4, "counted", 5), (4, "duplicate", 2)),
        *((None, "read", 2), (None, "rejected.unknown_collection", 2)),
    )
    four = second.accounting.epochs[1].epoch_start
    assert lines(shown, second) == [
        f"one epoch 3 ({begin}): read 1,502 (+2), counted 1,500 (+1), rejected as malformed 1",
        f"one epoch 4 ({four}): read 7, counted 5, duplicate 2",
        "records of no epoch: read 2, rejected as unknown_collection 2",
    ]
    taken_back = record((3, "read", 1502), (3, "counted", 1501), (3, "late", 1))
    kept = replace(taken_back.accounting, unattributed=second.accounting.unattributed)
    assert lines(shown, replace(taken_back, accounting=kept)) == [
        f"one epoch 3 ({begin}): counted 1,501 (+1), rejected as malformed 0 (-1)"
    ]


def test_what_was_there_before_is_not_said_again() -> None:
    before = record((3, "read", 5), (3, "counted", 5))
    assert lines(StreamLines(before), before) == []
    (line,) = lines(StreamLines(before), record((3, "read", 9), (3, "counted", 9)))
    assert line.endswith(": read 9 (+4), counted 9 (+4)")


def test_a_stream_goes_on_from_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, now = record((3, "read", 5), (3, "counted", 5)), record((3, "read", 8), (3, "counted", 8))
    (tmp_path / "out").mkdir()

    def run_local(_: RunConfig, progress: Progress) -> RunRecord:
        progress("published", now, Status())
        return now

    monkeypatch.setattr("ldpbeam.engine.run.run_local", run_local)
    whole, from_it = ": read 8, counted 8", ": read 8 (+3), counted 8 (+3)"
    # A damaged one says nothing, and holds nothing up: the engine goes on from its own state.
    for there, said in ((None, whole), (before.content(), from_it), (before.content()[:-9], whole)):
        if there is not None:
            (tmp_path / "out" / "run.json").write_bytes(there)
        values = {
            "files": (),
            "watch": str(tmp_path),
            "output": str(tmp_path / "out"),
            "runner": "FnApiRunner",
        }
        running.run_over_messages((ONE,), values)
        lines = [line for line in capsys.readouterr().out.splitlines() if " one epoch 3 " in line]
        assert [line.rpartition("Z)")[2] for line in lines] == [said]
