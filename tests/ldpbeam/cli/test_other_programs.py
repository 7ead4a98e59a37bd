"""Folders and files as other programs leave them, through the commands: counted, or refused by name."""

from __future__ import annotations

import bz2
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.errors import UsageError
from tests.ldpbeam.cli.test_odd_paths import YAML, accounting, command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a collection, and reports of two epochs as a table."""
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(YAML)
    population = ("--collection", "c.yaml", "--population", "zipf:1", "--devices", 60, "--epochs", 2)
    command("simulate", *population, "--output", "sim", "--format", "parquet")
    return tmp_path


def reports() -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted(Path("sim/reports").iterdir()))


def run(source: object, ends: int = 0) -> tuple[str, dict[str, Any]]:
    """What a run over something says, and its record."""
    said = command("run", "--collection", "c.yaml", "--input", source, "--output", "out", ends=ends)
    return said, json.loads(Path("out/run.json").read_text())


@pytest.mark.thorough
def test_a_dataset_with_its_sidecars_is_counted_whole(here: Path) -> None:
    """As Spark, Dask and Arrow write it; the record says what was passed over, and a replay keeps that."""
    collected: list[Any] = []
    pq.write_to_dataset(reports(), "set", metadata_collector=collected)
    pq.write_metadata(reports().schema, "set/_metadata", collected)
    pq.write_metadata(reports().schema, "set/_common_metadata")
    Path("set/_SUCCESS").touch()
    said, record = run("set")
    assert accounting(Path("out"))["read"] == accounting(Path("out"))["counted"] == 120
    assert "passed over 3" in said
    left = ["set/_SUCCESS", "set/_common_metadata", "set/_metadata"]
    assert [one["path"] for one in record["passed_over"]] == left
    command("replay", "out/rejects")
    again = json.loads(Path("out/run.json").read_text())
    assert again["passed_over"] == record["passed_over"]
    assert "passed_over" not in run("set/*.parquet")[1]
    # Named outright it is refused, as what it is.
    said, record = run("set/_metadata", ends=5)
    assert record["accounting"]["total"]["rejected"] == {"unsupported_format": 1}
    assert "summary of a dataset" in said


@pytest.mark.thorough
@pytest.mark.parametrize("by", [["epoch"], ["digest", "epoch"]])
@pytest.mark.parametrize("source", ["hive", "hive/**", "hive/**/*.parquet"])
def test_partitions_of_a_folder_are_read(here: Path, by: list[str], source: str) -> None:
    """The columns that the folders' names hold are not in the files."""
    pq.write_to_dataset(reports(), "hive", partition_cols=by)
    _, record = run(source)
    assert {line["epoch"]: line["counted"] for line in record["accounting"]["epochs"]} == {0: 60, 1: 60}
    command("inspect", "hive")


@pytest.mark.thorough
def test_columns_of_another_name_or_type_are_named(here: Path) -> None:
    """In the run, in its rejects, and by inspect, which fails."""
    pq.write_table(
        reports().rename_columns([name.upper() for name in reports().column_names]), "caps.parquet"
    )
    said, record = run("caps.parquet", ends=5)
    assert record["accounting"]["total"]["rejected"] == {"wrong_columns": 120}
    assert said.count("the column 'EPOCH' must be called epoch") == 2
    assert "'EPOCH' must be called epoch" in command("inspect", "out/rejects")
    shown = CliRunner().invoke(cli, ["inspect", "caps.parquet"])
    assert isinstance(shown.exception, UsageError)
    assert "'EPOCH' must be called epoch" in str(shown.exception)
    ids = pa.array([str(one) for one in reports()["report_id"].to_pylist()])
    pq.write_table(reports().drop_columns(["report_id"]).append_column("report_id", ids), "text.parquet")
    assert run("text.parquet")[1]["accounting"]["total"]["counted"] == 120


@pytest.mark.thorough
def test_a_digest_in_hex_is_named_where_nothing_is_counted(here: Path) -> None:
    """Every command prints digests so; the rows are no messages, and the run must not say that they are."""
    digests = pa.array([f"{one:016x}" for one in reports()["digest"].to_pylist()])
    pq.write_table(reports().drop_columns(["digest"]).append_column("digest", digests), "hex.parquet")
    said, record = run("hex.parquet", ends=5)
    assert record["accounting"]["total"]["rejected"] == {"malformed": 120}
    assert "a digest in hex" in said
    assert "ReportBatch" not in said


@pytest.mark.thorough
def test_compressed_files_are_read_or_named(here: Path) -> None:
    """A skippable frame first, as pzstd writes it; bzip2 beside sound files is one reject, said once."""
    population = ("--collection", "c.yaml", "--population", "zipf:1", "--devices", 60, "--epochs", 1)
    command("simulate", *population, "--output", "messages")
    (written,) = Path("messages/reports").iterdir()
    plain = written.read_bytes()
    frame = b"\x50\x2a\x4d\x18\x04\0\0\0" + len(plain).to_bytes(4, "little")
    Path("in").mkdir()
    Path("in/a.pb.zst").write_bytes(frame + zstandard.compress(plain))
    assert run("in")[1]["accounting"]["total"]["counted"] == 60
    Path("in/a.pb.bz2").write_bytes(bz2.compress(plain))
    said, record = run("in", ends=4)
    assert record["accounting"]["total"]["rejected"] == {"unsupported_format": 1}
    assert said.count("in/a.pb.bz2: The file is bzip2, which is not read; decompress it first (bunzip2)") == 1


@pytest.mark.thorough
def test_a_quoted_relative_pattern_is_matched(here: Path) -> None:
    for day in ("day-1", "day-2"):
        Path(day).mkdir()
        pq.write_table(reports().slice(60 * (day == "day-2"), 60), f"{day}/a.parquet")
    for pattern in ("day-*/a.parquet", "*/a.parquet", "**/a.parquet", "./day-[12]/*"):
        assert run(pattern)[1]["accounting"]["total"]["counted"] == 120
