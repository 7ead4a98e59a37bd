"""docs/beam.md: every block of Python runs, in order, and prints what the page says."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.admission import ReportColumns, as_sent, batch_message
from ldpbeam.simulators.deliver.files import report_file, write_reports
from ldpbeam.tables import CUMULATIVE
from ldpbeam.transforms import FrequenciesPerEpoch
from tests.conftest import REPOSITORY
from tests.docs.blocks import BLOCK, executed, printed_by
from tests.narrow import present

PAGE = REPOSITORY / "docs" / "beam.md"
YAML = re.compile(r"^```yaml\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
COLLECTION = REPOSITORY / "examples" / "first_choice.yaml"


def yaml_block(begins: str) -> str:
    """The block of YAML that begins so."""
    (found,) = (text for text in YAML.findall(PAGE.read_text("utf-8")) if text.startswith(begins))
    return str(found)


def few() -> ReportColumns:
    """As many reports of the page's collection as it wants for a result."""
    agreed = ldpbeam.load_collection(COLLECTION)
    return ldpbeam.simulate(agreed, list(present(present(agreed.domain).labels)) * 150, seed=7)


def as_pattern(printed: str) -> str:
    """The text, in which … stands for anything."""
    return ".*".join(map(re.escape, printed.split("…")))


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one interpreter, as a person would type the blocks; the order of lines is Beam's."""
    (tmp_path / "first_choice.yaml").write_text(yaml_block("name: first_choice"))
    (tmp_path / "reports").mkdir()
    write_reports("batch", report_file(tmp_path / "reports", 0, "batch", "none"), [few()])
    monkeypatch.chdir(tmp_path)
    for source, shown, printed in executed(PAGE, {"__name__": "__main__"}):
        lines = [printed, shown]
        if "…" not in shown:
            lines = ["\n".join(sorted(each.splitlines())) for each in lines]
        assert re.fullmatch(as_pattern(lines[1]), lines[0], re.DOTALL), (source, printed)
    assert len(list(tmp_path.glob("frequencies*.parquet"))) == 1
    assert len(list(tmp_path.glob("frequencies*.jsonl"))) == 1


def test_the_first_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a demonstration's folder, with fewer devices."""
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    assert readme.index("make demo") < readme.index("```python") < readme.index("make test")
    source = BLOCK.findall(readme)[0][0]
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 10
    agreed = ldpbeam.load_collection(REPOSITORY / "ldpbeam" / "cli" / "demo.yaml")
    values = list(present(present(agreed.domain).labels)) * 60
    reports = ldpbeam.simulate(agreed, values, slice={"channel": "beta"})
    folder = tmp_path / "demo-output"
    (folder / "reports").mkdir(parents=True)
    shutil.copy(REPOSITORY / "ldpbeam" / "cli" / "demo.yaml", folder / "collection.yaml")
    write_reports("batch", folder / "reports" / "epoch-000000.pb", as_sent(agreed, reports))
    monkeypatch.chdir(tmp_path)
    printed = printed_by(source, {"__name__": "__main__"})
    wanted = ldpbeam.estimate(agreed, reports, by_slice=True).to_pylist()
    for row in wanted:
        channel = row["slice_channel"]
        row["slice"] = {} if channel is None else {"channel": channel}
    columns = ("epoch", "slice", "label", "estimate", "ci_low", "ci_high")
    assert printed.splitlines() == [" ".join(str(row[name]) for name in columns) for row in wanted]


def test_the_collection_of_the_page_is_the_example(tmp_path: Path) -> None:
    (tmp_path / "first_choice.yaml").write_text(yaml_block("name: first_choice"))
    on_the_page = ldpbeam.load_collection(tmp_path / "first_choice.yaml")
    assert on_the_page == ldpbeam.load_collection(COLLECTION)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_yaml_of_the_page_runs_by_its_command(tmp_path: Path) -> None:
    """Into Parquet and into JSON: every column but the times, which are text."""
    (tmp_path / "first_choice.yaml").write_text(yaml_block("name: first_choice"))
    (tmp_path / "frequencies.yaml").write_text(yaml_block("pipeline:"))
    sent = few()
    payloads = pa.table({"payload": [batch_message(sent), b"junk", None]})
    pq.write_table(payloads, tmp_path / "messages.parquet")
    (command,) = re.findall(r"`(python -m apache_beam\.yaml\.main [^`]*)`", PAGE.read_text("utf-8"))
    done = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]

    def lines(name: str) -> list[Any]:
        text = "".join(path.read_text() for path in tmp_path.glob(f"{name}.json*"))
        return [json.loads(line) for line in text.splitlines()]

    (path,) = tmp_path.glob("counted.parquet*")
    found = pq.read_table(path).sort_by("value").to_pylist()
    wanted = ldpbeam.estimate(ldpbeam.load_collection(COLLECTION), sent).to_pylist()
    for row in wanted:
        row["start"] = row.pop("epoch_start").strftime("%Y-%m-%dT%H:%M:%SZ")
        del row["epoch_end"]
        row.update(dict.fromkeys(CUMULATIVE))
    assert found == [row | {"slice": []} for row in wanted]
    for row, one in zip(sorted(lines("counted"), key=lambda row: int(row["value"])), wanted, strict=True):
        assert row.pop("slice") == {}
        assert row == pytest.approx(one, abs=1e-9)  # what is written has ten digits
    assert {row["explanation"] for row in lines("rejected")} == {
        "The record is not a Report or a ReportBatch message.",
        "The field 'payload' is null.",
    }


def test_the_table_of_parameters_is_the_signature() -> None:
    """Their names, their order and their defaults."""
    text = PAGE.read_text("utf-8").partition("\n## Parameters\n")[2].partition("\n## ")[0]
    rows = [
        tuple(cell.strip() for cell in line.split("|")[1:3]) for line in text.splitlines() if "| `" in line
    ]
    signature = inspect.signature(FrequenciesPerEpoch).parameters.values()

    def shown(default: Any) -> str:
        if default is inspect.Parameter.empty:
            return ""
        return f"`{json.dumps(default)}`" if isinstance(default, str) else f"`{default}`"

    assert rows == [(f"`{one.name}`", shown(one.default)) for one in signature]
