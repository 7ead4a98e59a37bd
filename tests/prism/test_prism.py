"""The graph over files on Prism, Beam's portable runner for one machine.

The clusters' graph is not tested there: counts stay pending in some runs (docs/operations.md).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldpbeam.job.config import RunConfig
from ldpbeam.pipelines.run import run
from tests.pipelines.running import collection, fleet, write
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
