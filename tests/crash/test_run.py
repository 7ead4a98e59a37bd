"""The power is lost anywhere while ``run`` writes: no reader is misled, the next run gives the same bytes.

What may be left of the disk holds what is left after SIGKILL, too.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.collection.file import load_collection
from ldpbeam.job.config import RunConfig
from ldpbeam.job.inputs import match_inputs
from ldpbeam.pipelines.run import run
from tests.crash.harness import YAML, Tree, differences, reader_complaints, spread, tree
from tests.crash.power import final, forcing_only, losses
from tests.crash.recorder import Log, Recorder, restore
from tests.pipelines.running import fleet, with_duplicates, write

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="the recorder is loaded as Linux does it"),
]


def program(folder: Path, collection: str, inputs: str) -> None:
    """A run whose output is the folder."""
    config = RunConfig.parsed(
        (load_collection(collection),), files=match_inputs(inputs).files, output=str(folder), shard_bits=0
    )
    run(config)


@pytest.fixture
def given(home: Path) -> dict[str, dict[str, str]]:
    """Arguments of a run over some of the inputs, and of one over all."""
    path = home / "screens.yaml"
    parameters = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0"
    path.write_text(YAML.format(name="screens", size=24, protocol="loloha", parameters=parameters))
    sent = with_duplicates(fleet(load_collection(path), 100, 2))
    folder = write(home / "reports", load_collection(path), sent)
    some, all_of_them = f"{folder}/*{sorted(folder.iterdir())[0].name}", str(folder)
    return {"older": {"inputs": some}, "newer": {"inputs": all_of_them}, "both": {"collection": str(path)}}


def recorded(recorder: Recorder, home: Path, given: Any, older: bool) -> tuple[Log, list[Tree]]:
    """The record of a run, in an empty folder or over an older run's results; and the versions there are."""
    folder = restore({}, home / "recorded")
    versions: list[Tree] = []
    for which in ("older", "newer") if older else ("newer",):
        log = recorder.run(program, folder, **given["both"], **given[which])
        versions.append(tree(folder))
    return log, versions


def complaints(log: Log, versions: list[Tree], home: Path) -> Counter[str]:
    """What readers could trip over after a loss of power."""
    found: Counter[str] = Counter()
    for loss in spread([*losses(log, 64)], 60):
        found.update(reader_complaints(tree(restore(loss.state, home / "left")), versions))
    return found


@pytest.mark.parametrize("older", [False, True])
def test_a_lost_disk_misleads_no_reader_and_the_next_run_is_whole(
    older: bool, recorder: Recorder, home: Path, given: Any
) -> None:
    log, versions = recorded(recorder, home, given, older)
    assert complaints(log, versions, home) == {}
    for loss in spread([*losses(log, 16)], 4):
        left = restore(loss.state, home / "left")
        recorder.run(program, left, **given["both"], **given["newer"])
        assert differences(tree(left), versions[-1]) == []


@pytest.mark.parametrize("forced", ["files", "folders"])
def test_a_run_that_forces_only_the_one_to_disk_fails(
    forced: str, recorder: Recorder, home: Path, given: Any
) -> None:
    """Otherwise the test above could not fail."""
    log, versions = recorded(recorder, home, given, True)
    last = final(forcing_only(forced, log), 1000)
    assert any(reader_complaints(tree(restore(state, home / "left")), versions) for state in last)
