"""A command leaves alone what it has loaded, and collects what its work makes; other processes do as ever."""

from __future__ import annotations

import atexit
from pathlib import Path

import pytest

from ldpbeam.engine import run as engine
from ldpbeam.host import memory as garbage
from ldpbeam.job.config import RunConfig
from tests.pipelines.running import collection


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


def test_other_processes_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
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
