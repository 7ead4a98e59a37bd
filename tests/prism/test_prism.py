"""The graph over files, and the public transform, on Prism, Beam's portable runner for one machine.

The clusters' graph is not tested there: counts stay pending in some runs (docs/operations.md).
"""

from __future__ import annotations

import json
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from ldpbeam.job.config import RunConfig
from ldpbeam.pipelines.run import run
from ldpbeam.transforms import as_dict
from tests.pipelines.running import collection, fleet, write
from tests.transforms.public import BOTH, SENT, counters, elements, expected, in_order, keep
from tests.transforms.test_frequencies import INPUTS, Whole
from tests.waiting import PATIENCE

pytestmark = [
    pytest.mark.prism,
    # Go compiles half of Beam where its cache is empty.
    pytest.mark.timeout(4 * PATIENCE),
    # Beam leaves channels and processes to the end of the interpreter.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_files_give_byte_for_byte_what_the_local_runner_gives(
    prism: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = write(tmp_path / "reports", collection(), fleet(collection(), 300, 3))
    inputs = tuple(str(path) for path in sorted(reports.iterdir()))
    here = RunConfig.parsed((collection(),), files=inputs, output=str(tmp_path / "here"))
    monkeypatch.setenv("LDPBEAM_PRISM", str(prism))
    there = RunConfig.parsed(
        (collection(),), files=inputs, output=str(tmp_path / "there"), runner="PrismRunner"
    )
    assert run(here).exit_code == run(there).exit_code == 0
    tables = [contents(tmp_path / place / "estimates") for place in ("here", "there")]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 3
    totals = [
        json.loads((tmp_path / place / "run.json").read_text())["accounting"] for place in ("here", "there")
    ]
    assert totals[0] == totals[1]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("deduplicate", [True, False])
def test_the_public_transform_gives_the_rows_of_the_driver(
    prism: Path, tmp_path: Path, deduplicate: bool
) -> None:
    """Of every kind of input, over two calendars; its counters too."""
    for one in BOTH:
        write(tmp_path / "files", one, SENT[one.digest_hex], prefix=one.name)
    options = PipelineOptions(
        ["--runner=PrismRunner", f"--prism_location={prism}", "--environment_type=LOOPBACK"]
    )
    with beam.Pipeline(options=options) as pipeline:
        for name in INPUTS:
            whole = Whole(name, tmp_path / "files", deduplicate=deduplicate)
            keep(pipeline | name >> whole, tmp_path / name, name)
    for name in INPUTS:
        found = in_order(map(as_dict, elements(tmp_path / name)))
        assert found == expected(deduplicate=deduplicate), name
    # All rows are there in every run. Of the metrics Prism loses those of a bundle in some runs: 52 of 55.
    assert 4 * len(INPUTS) <= counters(pipeline.result)["results"] <= 5 * len(INPUTS)
