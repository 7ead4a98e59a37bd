"""Remarks about results that lack something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ldpbeam.cli.shared.histories import remark_missing
from ldpbeam.records.run_record import read_record
from tests.ldpbeam.cli.calling import call

COLLECTION = "examples/first_choice.yaml"


def test_a_missing_table_is_remarked_unless_its_epoch_is_withheld(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = ("--population", "zipf:1.1", "--devices", "300", "--epochs", "2", "--seed", "1")
    call("simulate", "--collection", COLLECTION, *fleet, "--output", tmp_path)
    results = tmp_path / "results"
    call("run", "--collection", COLLECTION, "--input", tmp_path / "reports", "--output", results)
    record, tables = read_record(results / "run.json"), sorted((results / "latest").iterdir())
    remark_missing(results)
    assert capsys.readouterr().err == ""
    tables[1].unlink()
    remark_missing(results)
    assert f"1 of its tables are missing, the first is {tables[1].name}; " in capsys.readouterr().err
    first, second = record.accounting.epochs
    epochs = (first, replace(second, withheld="too_many_errors"))
    remark_missing(results, replace(record, accounting=replace(record.accounting, epochs=epochs)))
    assert capsys.readouterr().err == ""
