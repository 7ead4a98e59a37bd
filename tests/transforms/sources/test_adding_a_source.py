"""A source added the way ldpbeam/transforms/sources/__init__.py says: its module, and its entry in the table.

``spool`` exists in this file only. Everything else picks it up unedited: the command line with its help, its
checks and its guesses, the template of Dataflow, and the unbounded pipeline, run by a runner of Beam.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ldpbeam.collection.file import load_collection
from ldpbeam.wire import report_pb2
from tests.pipelines.running import fleet
from tests.transforms.fresh import TEMPLATE, Ended, run_commands

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
    'Broker(SourceOption("--spool-file", "PATH", "Messages in a file."), '
    '(SourceOption("--spool-lines", "N", "How many of them.", needed=True),), "spool")'
)
START = f"""
import sys, types
module = types.ModuleType("ldpbeam.transforms.sources.spool")
sys.modules[module.__name__] = module
exec(compile({MODULE!r}, "spool.py", "exec"), module.__dict__)
from ldpbeam.transforms import sources
from ldpbeam.transforms.sources import Broker, SourceOption
entry = {ENTRY}
sources.SOURCES[entry.target.name] = entry
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands read and write."""
    return tmp_path_factory.mktemp("source")


@pytest.fixture(scope="module")
def ended(folder: Path) -> dict[str, Ended]:
    """How commands ended that know the source.

    Jobs over the messages of three epochs, and one more line that they are not to read; the help, and the
    template.
    """
    described, spool = folder / "minutes.yaml", folder / "messages"
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
    run = ("run", "--collection", described, "--runner", "BundleBasedDirectRunner", "--spool-file", spool)
    commands = {
        "half": (*run, "--output", folder / "half"),
        "misspelt": (*run, "--output", folder / "misspelt", "--spool-lines", 3, "--spol-file", "x"),
        "help": ("run", "--help"),
        "template": TEMPLATE,
        "run": (*run, "--output", folder / "out", "--spool-lines", 3),
    }
    return run_commands(START, commands)


@pytest.mark.thorough
def test_its_messages_are_counted(ended: dict[str, Ended], folder: Path) -> None:
    assert ended["run"].code == 0, ended["run"].err
    record = json.loads((folder / "out" / "run.json").read_text())
    assert record["accounting"]["total"]["counted"] == 300
    tables = sorted((folder / "out" / "estimates").glob("*.parquet"))
    assert [pq.read_table(path)["n"][0].as_py() for path in tables] == [100, 100, 100]


@pytest.mark.thorough
def test_half_of_it_is_refused(ended: dict[str, Ended], folder: Path) -> None:
    assert ended["half"].code == 2
    assert "--spool-file needs --spool-lines" in ended["half"].err
    assert not (folder / "half").exists()


@pytest.mark.thorough
def test_a_misspelt_option_is_recognised(ended: dict[str, Ended]) -> None:
    assert ended["misspelt"].code == 2
    assert "Did you mean --spool-file?" in ended["misspelt"].err


@pytest.mark.thorough
def test_help_and_the_template_have_its_options(ended: dict[str, Ended]) -> None:
    help_text = " ".join(ended["help"].out.split())
    assert "--spool-file PATH Messages in a file." in help_text
    done = ended["template"]
    assert done.code == 0, done.err
    names = [parameter["name"] for parameter in json.loads(done.out)["parameters"]]
    assert {"spool_file", "spool_lines"} <= set(names)
