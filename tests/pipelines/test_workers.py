"""Threads of the local runner lose no output; Beam's own do, so they are told not to use a clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker import data_plane
from apache_beam.runners.worker.data_plane import ClosableOutputStream, TimeBasedBufferingClosableOutputStream

from ldpbeam.errors import UsageError
from ldpbeam.job.config import RunConfig
from ldpbeam.pipelines.beam_job import beam_options, make_pipeline
from tests.pipelines.running import collection

THREADS = ("--direct_num_workers=1", "--direct_running_mode=multi_threading")


def test_our_threads_have_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_handlers, "DATA_BUFFER_TIME_LIMIT_MS", 1000)
    made: list[type] = []
    create = ClosableOutputStream.create

    def noticed(close: Any, flush: Any, limit: int) -> ClosableOutputStream:
        made.append(type(create(close, flush, 0) if limit == 0 else create(close, flush, 10**9)))
        return create(close, flush, 0)

    monkeypatch.setattr(data_plane.ClosableOutputStream, "create", noticed)

    def runs() -> set[type]:
        made.clear()
        with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *THREADS])) as pipeline:
            _ = pipeline | beam.Create([1, 2], reshuffle=False) | beam.GroupBy(lambda one: one)
        return set(made)

    assert TimeBasedBufferingClosableOutputStream in runs(), "Beam's own threads had one"
    make_pipeline(RunConfig.parsed((collection("grr"),), output="out"))  # as for every job
    assert TimeBasedBufferingClosableOutputStream not in runs()
    assert made


def test_the_clock_is_not_brought_back(tmp_path: Path) -> None:
    agreed, off = collection("grr"), ("--experiments", "x,data_buffer_time_limit_ms=1")
    config = RunConfig.parsed(
        (agreed,),
        files=("a",),
        output=str(tmp_path),
        beam_args=off,
    )
    with pytest.raises(UsageError, match="lose some of it") as caught:
        beam_options(config)
    assert caught.value.code == "E-USAGE-OPTION"
