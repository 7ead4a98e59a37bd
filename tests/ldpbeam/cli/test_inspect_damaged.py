"""Damaged results are said in one line, with a code; the command line is never surprised by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldpbeam.cli.inspect import inspect_lines
from ldpbeam.errors import UsageError
from ldpbeam.records.run_record import read_record
from tests.pipelines.running import collection, copied, execute, fleet, write

ONE = collection("grr", name="one")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with rejects, and what it read."""
    folder = tmp_path_factory.mktemp("finished")
    write(folder / "in", ONE, fleet(ONE, 60, 1))
    (folder / "in" / "junk").write_bytes(b"\x03abc")
    execute(ONE, folder / "in", folder / "out")
    return folder


@pytest.fixture
def done(finished: Path, tmp_path: Path) -> Path:
    """That run: a copy, since each test damages it in its own way."""
    return copied(finished, tmp_path) / "out"


@pytest.mark.cases(2)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"schema": "another"}'])
def test_a_damaged_record(done: Path, content: bytes) -> None:
    (done / "run.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"is not the record of a run, or is damaged.*\[E-USAGE-RESULTS\]"):
        read_record(done / "run.json")


def test_a_cut_table_of_reports_is_a_reject(done: Path, tmp_path: Path) -> None:
    table = next((done / "estimates").iterdir())
    (tmp_path / "cut.parquet").write_bytes(table.read_bytes()[:-3])
    assert any("corrupt_file" in line for line in inspect_lines(tmp_path / "cut.parquet", (), 5))
