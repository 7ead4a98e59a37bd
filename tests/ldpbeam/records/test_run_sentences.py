"""Sentences about a run name some files and gaps one by one, and say of the rest that there is more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ldpbeam.accounting import Accounting, Entry
from ldpbeam.job.config import RunConfig
from ldpbeam.records.outcome import RunOutcome
from ldpbeam.records.run_output import run_record
from ldpbeam.records.run_record import RunRecord
from ldpbeam.records.run_sentences import cut_off_files, missing_epochs
from ldpbeam.table_file import as_parquet
from ldpbeam.transforms.sinks.file_record import FileRecord
from tests.pipelines.running import collection

AGREED = collection()


def record(entries: list[Entry], output: Path, files: list[FileRecord]) -> RunRecord:
    config = RunConfig.parsed((AGREED,), files=("x",), output=str(output))
    return run_record(config, RunOutcome(Accounting.from_entries(entries), files), 1.0)


def test_five_files_that_are_cut_off_are_named(tmp_path: Path) -> None:
    (tmp_path / "rejects").mkdir()
    for files, lines in ((5, 5), (6, 6), (9, 6)):
        written = []
        for i in range(files):
            row = {"reason": ["malformed", "truncated"], "source": [f"{i}.pb"] * 2, "place": [1, 1000 + i]}
            table = pa.table(row | {"missing": pa.array([None, i or None], pa.int64())})
            content = as_parquet(table)
            (tmp_path / "rejects" / f"{i}.parquet").write_bytes(content)
            written.append(FileRecord(f"rejects/{i}.parquet", len(content), "", 2))
        key = (AGREED.digest_hex, 0)
        entries: list[Entry] = [((key, "read"), files), ((key, "rejected.truncated"), files)]
        found = list(cut_off_files(record(entries, tmp_path, written), str(tmp_path)))
        assert len(found) == lines
        assert [line.partition(":")[0] for line in found[:5]] == [f"{i}.pb" for i in range(5)]
        assert "byte 1,000: how much is missing is not known" in found[0]
        assert "byte 1,001: 1 byte is missing" in found[1]
        assert "byte 1,002: 2 bytes are missing" in found[2]
        assert found[5:] in ([], ["more files end inside a record, see rejects/. [W-RUN-TRUNCATED]"])


def test_five_gaps_are_named(tmp_path: Path) -> None:
    """Counts exist for the even epochs only: each odd epoch between two of them is a gap."""
    for epochs, text in ((6, "1, 3, 5, 7, 9. Check"), (8, "1, 3, 5, 7, 9 and 2 more gaps. Check")):
        keys = [(AGREED.digest_hex, 2 * i) for i in range(epochs)]
        entries: list[Entry] = [((key, what), 4) for key in keys for what in ("read", "counted")]
        (line,) = missing_epochs(record(entries, tmp_path, []))
        assert f"of the epochs 0..{2 * epochs - 2} nothing was counted in {text}" in line
