"""A sink added the way ldpbeam/transforms/sinks/__init__.py says: its module, and its entry in the table.

``lines`` exists in this file only. Everything else picks it up unedited: the command line with its help, its
checks and its guesses, the template of Dataflow, both pipelines, and the local engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbeam.collection.file import load_collection
from tests.conftest import REPOSITORY
from tests.pipelines.running import fleet, write

MODULE = '''
"""A sink that adds a line of JSON to a file for every revision."""

from __future__ import annotations

import json
from pathlib import Path

import apache_beam as beam

from ldpbeam.collection.collection import Collection
from ldpbeam.errors import UsageError
from ldpbeam.histogram import EpochHistogram


class AppendLines(beam.DoFn):
    """Histograms to lines; passes each on once its line is written."""

    def __init__(self, collection: Collection, path: str) -> None:
        """Write about epochs of this collection."""
        super().__init__()
        self._collection, self._path = collection, Path(path)

    @staticmethod
    def check(target: str) -> None:
        """Refuse what is not the name of a file of lines."""
        if not target.endswith(".jsonl"):
            raise UsageError("E-USAGE-OPTION", f"{target!r} is no file of lines", remedy="Write PATH.jsonl.")

    def process(self, histogram: EpochHistogram) -> list[EpochHistogram]:
        """Write one line."""
        accounted = [p.name for p in self._path.parent.rglob("accounting/*.json")]
        about = [self._collection.name, histogram.epoch, histogram.revision, histogram.reports]
        with self._path.open("a") as lines:
            lines.write(json.dumps([*about, accounted]) + "\\n")
        return [histogram]
'''
ENTRY = (
    'Sink("--lines-file", "PATH", "Also add a line for every revision to this file.", ("TEXT", ""), '
    '"Lines", ("lines", "AppendLines"))'
)
START = f"""
import sys, types
module = types.ModuleType("ldpbeam.transforms.sinks.lines")
sys.modules[module.__name__] = module
exec(compile({MODULE!r}, "lines.py", "exec"), module.__dict__)
from ldpbeam.transforms.sinks import SINKS, Sink
entry = {ENTRY}
SINKS[entry.name] = entry
"""


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, with the sink in the table."""
    command = [sys.executable, "-c", f"{START}\n{code}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)


def ldpbeam(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command."""
    return python("from ldpbeam.pipelines.commands.main import main\nmain()", *arguments)


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Of a run over three epochs; its output is still missing."""
    folder = tmp_path_factory.mktemp("reports")
    described = folder / "minutes.yaml"
    described.write_text(
        "name: minutes\nversion: 1\ndomain: {size: 11}\nprotocol: grr\nepsilon: 1.0\n"
        "epoch: {length: 1h, count: 100}\nmin_reports: 1\n"
    )
    agreed = load_collection(described)
    write(folder / "in", agreed, fleet(agreed, 100, 3))
    return ["run", "--collection", described, "--input", folder / "in"]


def test_every_revision_reaches_it_before_the_accounting_is_written(
    arguments: list[object], tmp_path: Path
) -> None:
    lines = tmp_path / "out" / "results.jsonl"
    lines.parent.mkdir()
    done = ldpbeam(*arguments, "--output", tmp_path / "out" / "run", "--lines-file", lines)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in lines.read_text().splitlines()]
    assert sorted(line[:4] for line in told) == [["minutes", epoch, 0, 100] for epoch in range(3)]
    for name, epoch, *_, accounted in told:
        assert not [
            file for file in accounted if file.startswith(name) and file.endswith(f"{epoch:06d}.json")
        ]


def test_its_target_is_checked_before_anything_starts(arguments: list[object], tmp_path: Path) -> None:
    done = ldpbeam(*arguments, "--output", tmp_path / "out", "--lines-file", "results.txt")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("ldpbeam: 'results.txt' is no file of lines")
    assert not (tmp_path / "out").exists()


def test_a_misspelt_option_is_recognised(arguments: list[object], tmp_path: Path) -> None:
    done = ldpbeam(*arguments, "--output", tmp_path / "out", "--line-file", "results.jsonl")
    assert done.returncode == 2
    assert "Did you mean --lines-file?" in done.stderr


def test_help_and_the_template_have_its_option() -> None:
    help_text = " ".join(ldpbeam("run", "--help").stdout.split())
    assert "--lines-file PATH Also add a line for every revision to this file." in help_text
    code = "from ldpbeam.pipelines.deploy.dataflow import generated; print(*generated().values())"
    done = python(code)
    assert done.returncode == 0, done.stderr
    (parameter,) = (p for p in json.loads(done.stdout)["parameters"] if p["name"] == "lines_file")
    assert parameter["helpText"] == "Also add a line for every revision to this file."
    assert parameter["isOptional"]
