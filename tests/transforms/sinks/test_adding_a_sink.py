"""A sink added the way ldpbeam/transforms/sinks/__init__.py says: its module, and its entry in the table.

``lines`` exists in this file only. Everything else picks it up unedited: the command line with its help, its
checks and its guesses, the template of Dataflow, both pipelines, and the local engine.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldpbeam.collection.file import load_collection
from tests.pipelines.running import fleet, write
from tests.transforms.fresh import TEMPLATE, Ended, run_commands

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands read and write."""
    return tmp_path_factory.mktemp("sink")


@pytest.fixture(scope="module")
def ended(folder: Path) -> dict[str, Ended]:
    """How commands ended that know the sink: runs over three epochs, the help, and the template."""
    described = folder / "minutes.yaml"
    described.write_text(
        "name: minutes\nversion: 1\ndomain: {size: 11}\nprotocol: grr\nepsilon: 1.0\n"
        "epoch: {length: 1h, count: 100}\nmin_reports: 1\n"
    )
    agreed = load_collection(described)
    write(folder / "in", agreed, fleet(agreed, 100, 3))
    (folder / "out").mkdir()
    run = ("run", "--collection", described, "--input", folder / "in", "--output")
    commands = {
        "wrong target": (*run, folder / "wrong", "--lines-file", "results.txt"),
        "misspelt": (*run, folder / "misspelt", "--line-file", "results.jsonl"),
        "help": ("run", "--help"),
        "template": TEMPLATE,
        "run": (*run, folder / "out" / "run", "--lines-file", folder / "out" / "results.jsonl"),
    }
    return run_commands(START, commands)


@pytest.mark.thorough
def test_every_revision_reaches_it_before_the_accounting_is_written(
    ended: dict[str, Ended], folder: Path
) -> None:
    assert ended["run"].code == 0, ended["run"].err
    told = [json.loads(line) for line in (folder / "out" / "results.jsonl").read_text().splitlines()]
    assert sorted(line[:4] for line in told) == [["minutes", epoch, 0, 100] for epoch in range(3)]
    for name, epoch, *_, accounted in told:
        assert not [
            file for file in accounted if file.startswith(name) and file.endswith(f"{epoch:06d}.json")
        ]


@pytest.mark.thorough
def test_its_target_is_checked_before_anything_starts(ended: dict[str, Ended], folder: Path) -> None:
    done = ended["wrong target"]
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("ldpbeam: 'results.txt' is no file of lines")
    assert not (folder / "wrong").exists()


@pytest.mark.thorough
def test_a_misspelt_option_is_recognised(ended: dict[str, Ended]) -> None:
    assert ended["misspelt"].code == 2
    assert "Did you mean --lines-file?" in ended["misspelt"].err


@pytest.mark.thorough
def test_help_and_the_template_have_its_option(ended: dict[str, Ended]) -> None:
    help_text = " ".join(ended["help"].out.split())
    assert "--lines-file PATH Also add a line for every revision to this file." in help_text
    done = ended["template"]
    assert done.code == 0, done.err
    (parameter,) = (p for p in json.loads(done.out)["parameters"] if p["name"] == "lines_file")
    assert parameter["helpText"] == "Also add a line for every revision to this file."
    assert parameter["isOptional"]
