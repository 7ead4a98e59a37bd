"""Sentences about a run name some files and gaps one by one, and say of the rest that there is more."""

from __future__ import annotations

from pathlib import Path

from ldpbeam.accounting import Accounting, Entry
from ldpbeam.job.config import RunConfig
from ldpbeam.records.outcome import RunOutcome
from ldpbeam.records.run_output import run_record
from ldpbeam.records.run_record import RunRecord
from ldpbeam.records.run_sentences import missing_epochs
from ldpbeam.transforms.sinks.file_record import FileRecord
from tests.pipelines.running import collection

AGREED = collection()


def record(entries: list[Entry], output: Path, files: list[FileRecord]) -> RunRecord:
    config = RunConfig.parsed((AGREED,), files=("x",), output=str(output))
    return run_record(config, RunOutcome(Accounting.from_entries(entries), files), 1.0)


def test_five_gaps_are_named(tmp_path: Path) -> None:
    """Counts exist for the even epochs only: each odd epoch between two of them is a gap."""
    for epochs, text in ((6, "1, 3, 5, 7, 9. Check"), (8, "1, 3, 5, 7, 9 and 2 more gaps. Check")):
        keys = [(AGREED.digest_hex, 2 * i) for i in range(epochs)]
        entries: list[Entry] = [((key, what), 4) for key in keys for what in ("read", "counted")]
        (line,) = missing_epochs(record(entries, tmp_path, []))
        assert f"of the epochs 0..{2 * epochs - 2} nothing was counted in {text}" in line
