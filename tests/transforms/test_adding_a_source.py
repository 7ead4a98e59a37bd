"""A source added the way ldpbeam/transforms/sources/__init__.py says: its module, and its entry in the table.

``spool`` exists in this file only. Everything else picks it up unedited: the command line with its help, its
checks and its guesses, the template of Dataflow, and the unbounded pipeline, run by a runner of Beam.
"""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ldpbeam.collection.file import load_collection
from ldpbeam.wire import report_pb2
from tests.conftest import REPOSITORY
from tests.pipelines.running import fleet

MODULE = '''
"""Messages in a file, one a line: when it arrived in seconds since 1970, and its bytes in base64."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue


def read(given: Mapping[str, str], runner: str, *, portable: bool) -> beam.PTransform:
    """The source that is asked for."""
    lines = Path(given["spool_file"]).read_text().split("\\n")[: int(given["spool_lines"])]
    fields = (line.split() for line in lines)
    messages = [TimestampedValue(b64decode(text), int(arrival)) for arrival, text in fields]
    return beam.Create(messages, reshuffle=False)
'''
ENTRY = (
    'Source(SourceOption("--spool-file", "PATH", "Messages in a file."), '
    '(SourceOption("--spool-lines", "N", "How many of them.", needed=True),), "spool")'
)
START = f"""
import sys, types
module = types.ModuleType("ldpbeam.transforms.sources.spool")
sys.modules[module.__name__] = module
exec(compile({MODULE!r}, "spool.py", "exec"), module.__dict__)
from ldpbeam.transforms import sources
from ldpbeam.transforms.sources import Source, SourceOption
entry = {ENTRY}
sources.SOURCES[entry.target.name] = entry
"""


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, with the source in the table."""
    command = [sys.executable, "-c", f"{START}\n{code}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)


def ldpbeam(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command."""
    return python("from ldpbeam.pipelines.commands.main import main\nmain()", *arguments)


@pytest.fixture
def arguments(tmp_path: Path) -> list[object]:
    """Of a job over the messages of three epochs, and one more line that it is not to read."""
    described, spool = tmp_path / "minutes.yaml", tmp_path / "messages"
    described.write_text(
        "name: minutes\nversion: 1\ndomain: {size: 11}\nprotocol: grr\nepsilon: 1.0\n"
        "epoch: {length: 1h, count: 100}\nmin_reports: 1\n"
    )
    agreed = load_collection(described)
    lines = []
    for batch in fleet(agreed, 100, 3):
        many = report_pb2.ReportBatch(digest=agreed.digest, epoch=batch.epoch, count=len(batch.report_ids))
        many.report_ids.extend(batch.report_ids.tolist())
        many.payloads = batch.payloads.tobytes()
        lines.append(f"{3600 * batch.epoch + 60} {b64encode(many.SerializeToString()).decode()}")
    spool.write_text("\n".join([*lines, "no message"]))
    return [
        *("run", "--collection", described, "--output", tmp_path / "out"),
        *("--runner", "BundleBasedDirectRunner", "--spool-file", spool),
    ]


def test_its_messages_are_counted(arguments: list[object], tmp_path: Path) -> None:
    done = ldpbeam(*arguments, "--spool-lines", 3)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["accounting"]["total"]["counted"] == 300
    tables = sorted((tmp_path / "out" / "estimates").glob("*.parquet"))
    assert [pq.read_table(path)["n"][0].as_py() for path in tables] == [100, 100, 100]


def test_half_of_it_is_refused(arguments: list[object], tmp_path: Path) -> None:
    done = ldpbeam(*arguments)
    assert done.returncode == 2
    assert "--spool-file needs --spool-lines" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_misspelt_option_is_recognised(arguments: list[object]) -> None:
    done = ldpbeam(*arguments, "--spool-lines", 3, "--spol-file", "x")
    assert done.returncode == 2
    assert "Did you mean --spool-file?" in done.stderr


def test_help_and_the_template_have_its_options() -> None:
    help_text = " ".join(ldpbeam("run", "--help").stdout.split())
    assert "--spool-file PATH Messages in a file." in help_text
    done = python("from ldpbeam.pipelines.deploy.dataflow import generated; print(*generated().values())")
    assert done.returncode == 0, done.stderr
    names = [parameter["name"] for parameter in json.loads(done.stdout)["parameters"]]
    assert {"spool_file", "spool_lines"} <= set(names)
