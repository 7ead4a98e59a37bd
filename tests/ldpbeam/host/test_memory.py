"""A command leaves alone what it has loaded, and collects what its work makes; other processes do as ever."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbeam.collector import service
from ldpbeam.collector.server import Limits
from ldpbeam.collector.store import FileStore
from ldpbeam.engine import run as engine
from ldpbeam.host import memory as garbage
from ldpbeam.job.config import RunConfig
from tests.conftest import REPOSITORY
from tests.pipelines.running import collection

_SAYS = """
import atexit, gc, json, sys
before, kept = gc.get_threshold(), gc.get_freeze_count()  # Python 3.12 keeps some from its start
sys.argv = ["ldpbeam", *json.loads(sys.argv[1])]
from ldpbeam.__main__ import main
try:
    main()
except SystemExit:
    pass
print(json.dumps([before, gc.get_threshold(), gc.get_freeze_count() - kept]))
atexit._run_exitfuncs()
print(gc.get_freeze_count() > 10_000)
"""


def said(*arguments: str) -> tuple[list[int], list[int], int, bool]:
    """Thresholds before and after a command, how many objects are kept then; and are all at the end?"""
    command = [sys.executable, "-c", _SAYS, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    *_, told, at_the_end = done.stdout.splitlines()
    before, after, frozen = json.loads(told)
    return before, after, frozen, at_the_end == "True"


@pytest.mark.thorough
def test_a_command_collects_rarely_and_leaves_nothing_to_its_end() -> None:
    before, after, frozen, at_the_end = said("--version")
    assert before[0] < after[0] == 1_000_000
    assert frozen == 0
    assert at_the_end


@pytest.mark.thorough
def test_a_run_collects_as_usual_what_it_makes(tmp_path: Path) -> None:
    agreed = REPOSITORY / "examples" / "minutes_in_app.yaml"
    made = ["--population", "syn", "--devices", "50", "--epochs", "1", "--output", str(tmp_path)]
    said("simulate", "--collection", str(agreed), *made)
    reports = str(tmp_path / "reports")
    run = ["--input", reports, "--output", str(tmp_path / "out")]
    before, after, frozen, _ = said("run", "--collection", str(agreed), *run)
    assert after == before
    assert frozen > 100_000


def begin() -> None:
    raise InterruptedError


def test_a_stream_collects_as_usual_before_it_reads_a_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "keep_what_is_loaded", begin)
    output = tmp_path / "out"
    config = RunConfig.parsed((collection(),), watch=str(tmp_path), output=str(output))
    with pytest.raises(InterruptedError):
        engine.run_local(config)
    assert not output.exists()


def test_a_collector_collects_as_usual_before_it_takes_a_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(service, "keep_what_is_loaded", begin)
    store = FileStore(tmp_path / "reports", 10.0, 1 << 20)
    with pytest.raises(InterruptedError):
        service.serve(store, [], ("127.0.0.1", 0), Limits(), lambda *_: None)
    assert not (tmp_path / "reports").exists()


def test_other_processes_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is garbage in somebody's long process must not be kept; and what a second run finds, neither."""
    asked: list[object] = []

    class Collector:
        """What the module asks of gc."""

        get_threshold = staticmethod(lambda: (7, 8, 9))
        set_threshold = staticmethod(lambda *to: asked.append(to))
        freeze = staticmethod(lambda: asked.append("freeze"))

    monkeypatch.setattr(garbage, "gc", Collector)
    monkeypatch.setattr(atexit, "register", asked.append)
    garbage.keep_what_is_loaded()
    assert asked == []
    garbage.collect_rarely()
    garbage.keep_what_is_loaded()
    garbage.keep_what_is_loaded()
    assert asked == [(1_000_000,), Collector.freeze, "freeze", (7, 8, 9)]
