"""Handing a pipeline to its runner, and what a person is told when that fails.

Beam wraps what went wrong in errors of its own: a RuntimeError with a page of Java, an error of gRPC. Here
they become one line with a code: the runner cannot be reached or started (E-USAGE-RUNNER), or it took the
job and the job failed (E-RUN-JOB).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import (
    DebugOptions,
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
)
from apache_beam.runners.runner import PipelineState
from apache_beam.version import __version__ as beam_version

from ldpbeam.errors import CollectionError, JobError, LdpError, UsageError, option_error
from ldpbeam.job.config import ASK_THEIR_SERVER, RunConfig, spellings
from ldpbeam.job.inputs import stray

from . import workers

PRISM_BINARY = "LDPBEAM_PRISM"
"""Environment variable that names the binary of Beam's Prism."""

_WRAPPED = re.compile(
    r"ldpbeam\.errors\.(?P<kind>\w+): (?P<message>.*?) \[(?P<code>E-[A-Z]+(?:-[A-Z]+)*)\]", re.DOTALL
)
"""One of our errors in the text of one of Beam's, as a traceback ends: its class, its line and its code."""
_RAISED = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Error|Exception|Timeout)\b.*)$", re.MULTILINE)
"""A line of a traceback, Python's or Java's, that names an error."""
_LONGEST = 300

_LOSES_OUTPUT = "data_buffer_time_limit_ms"

_BEAM_HELP = "See ldpbeam run --help and Beam's pipeline options."

_TAKEN_SECONDS = 900.0
"""For a busy cluster, which starts Java, takes files and plans the job; a failed job is known at once."""
_ASK_SECONDS = 0.5
"""Between two questions to the cluster."""
_NEEDED = {
    "FlinkRunner": "Beam's job server for Flink is a Java program: give its archive with "
    "--flink_job_server_jar, or use --runner PortableRunner --job_endpoint HOST:PORT for a running one.",
    "PortableRunner": "Start a job server and give its address with --job_endpoint HOST:PORT.",
    "PrismRunner": "Check the binary that --prism_location names.",
    "SparkRunner": "Beam's job server for Spark is a Java program: give its archive with "
    "--spark_job_server_jar.",
}


def dry_run(pipeline: beam.Pipeline, config: RunConfig) -> str:
    """Everything that comes before a job, where none is to start; gives what to tell the user."""
    if config.job.runner == "DataflowRunner":
        try:
            pipeline.run()
        except (RuntimeError, ValueError, OSError) as error:
            _refuse(str(error))
    else:
        pipeline.to_runner_api()
    kind = "streaming" if config.streaming else "batch"
    return f"checked a {kind} job for {config.job.runner}; nothing was started"


def beam_options(config: RunConfig) -> PipelineOptions:
    parsers: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser) -> None:
        parser.error = _refuse  # type: ignore[method-assign]
        parsers.append(parser)

    # Beam wants a value here, and takes any for yes.
    typed = ["--dry_run=True" if a == "--dry_run" else a for a in config.job.beam_args]
    if config.streaming and config.job.runner != "FnApiRunner" and "--streaming" not in typed:
        typed.append("--streaming")
    if config.job.runner == "PrismRunner":
        typed = with_binary(typed)
    parsed = PipelineOptions([f"--runner={config.job.runner}", *typed], save_main_session=False)
    if not typed:
        return parsed
    known = parsed.get_all_options(add_extra_args_fn=keep)
    _, unknown = parsers[0].parse_known_args(typed)
    if unknown and config.job.runner not in ASK_THEIR_SERVER:
        if not unknown[0].startswith("-"):
            raise stray(unknown[0])
        name = unknown[0].partition("=")[0]
        near = get_close_matches(name, [*spellings(), *(f"--{option}" for option in known)], 1)
        raise option_error(f"there is no option {name}", f"Did you mean {near[0]}?" if near else _BEAM_HELP)
    if parsed.view_as(DebugOptions).lookup_experiment(_LOSES_OUTPUT):
        raise option_error(
            f"with the experiment {_LOSES_OUTPUT} Beam's workers send output by a clock, and lose some of it",
            "Leave it out.",
        )
    return parsed


def make_pipeline(config: RunConfig) -> beam.Pipeline:
    workers.install()
    try:
        return beam.Pipeline(options=beam_options(config))
    except (ValueError, ImportError, AttributeError) as error:
        _refuse(str(error))


def _refuse(message: str) -> NoReturn:
    # Beam writes a headline and then one line per complaint.
    complaint = " ".join(message.removeprefix("Pipeline has validations errors:").split()).rstrip(".")
    raise option_error(f"Beam refuses an option: {complaint}", _BEAM_HELP)


def run_to_end(pipeline: beam.Pipeline, runner: str = "FnApiRunner") -> None:
    finish(start(pipeline, runner), runner)


def start(pipeline: beam.Pipeline, runner: str) -> Any:
    """Hand a pipeline to its runner; gives Beam's result."""
    try:
        return pipeline.run()
    except (RuntimeError, ValueError, OSError, grpc.RpcError, grpc.FutureTimeoutError) as error:
        _raise_own(error)
        if runner not in ASK_THEIR_SERVER:
            raise
        raise UsageError(
            "E-USAGE-RUNNER", f"{runner} cannot be started: {_cause(error)}", remedy=_NEEDED[runner]
        ) from error


def finish(result: Any, runner: str) -> str:
    """Wait for a job; gives the state in which it ended."""
    try:
        result.wait_until_finish()
    except Exception as error:  # each runner has its own
        _raise_own(error)
        if runner == "FnApiRunner":
            raise  # in this process; nobody but us can have done that
        state = _state(result)
        if state not in {PipelineState.DRAINED, PipelineState.UPDATED}:
            raise JobError(
                "E-RUN-JOB",
                f"the job ended in state {state} on {runner}: {_cause(error)}",
                remedy="Look at the runner's and the workers' logs; nothing was published as finished.",
            ) from error
    return _state(result)


def _state(result: Any) -> str:
    """How a job stands, or what was last known of it when its runner has gone."""
    with suppress(grpc.RpcError):
        return str(result.state)
    return "UNKNOWN (its runner does not answer)"


def _raise_own(error: BaseException) -> None:
    """Raise the error of ours that another one carries in its text, if it does."""
    match = _WRAPPED.search(str(error))
    if match is not None:
        kind = {"CollectionError": CollectionError, "JobError": JobError, "UsageError": UsageError}
        raise kind.get(match["kind"], LdpError)(match["code"], match["message"].rstrip(".")) from None


def _cause(error: BaseException) -> str:
    """The cause in one line: the last error of a traceback that came along, else what the error says."""
    if isinstance(error, grpc.FutureTimeoutError):
        return "it does not answer"
    if isinstance(error, grpc.RpcError):
        details = getattr(error, "details", None)
        text = str(details() if callable(details) else error)
    else:
        text = str(error)
    named = _RAISED.findall(text)
    line = named[-1] if named else text
    return (" ".join(line.split())[:_LONGEST] or type(error).__name__).rstrip(".")


def with_binary(typed: Sequence[str]) -> list[str]:
    """Beam options for Prism, with where its binary is: --prism_location, or else LDPBEAM_PRISM."""
    options = list(typed)
    named = PipelineOptions(options).get_all_options()["prism_location"]
    location = named or os.environ.get(PRISM_BINARY, "")
    remedy = (
        f"Give it with --prism_location FILE or {PRISM_BINARY}; go install "
        f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{beam_version} builds it."
    )
    if not location:
        raise UsageError("E-USAGE-RUNNER", "PrismRunner needs the binary of Beam's Prism", remedy=remedy)
    if "://" not in location and not shutil.which(location) and not Path(location).is_file():
        raise UsageError("E-USAGE-RUNNER", f"there is no Prism binary {location}", remedy=remedy)
    return options if named else [*options, f"--prism_location={location}"]


def handed_over(result: Any, pipeline: beam.Pipeline, runner: str) -> dict[str, str]:
    """What is known of a job that goes on without us, once it is safe to leave it."""
    options = pipeline.options
    job: dict[str, str] = {"runner": runner}
    identity = getattr(result, "job_id", None) or getattr(result, "_job_id", "")
    identity = identity() if callable(identity) else identity
    if identity:
        job["id"] = str(identity)
    name = options.view_as(GoogleCloudOptions).job_name
    if name:
        job["name"] = str(name)
    master = str(options.view_as(FlinkRunnerOptions).flink_master or "")
    if runner == "FlinkRunner" and not master.startswith("["):
        job["cluster"] = master if "://" in master else f"http://{master}"
        job["cluster_id"] = _await_flink(result, runner, job["cluster"], job.get("name", ""))
    return job


def _await_flink(result: Any, runner: str, cluster: str, name: str) -> str:
    """Flink's own id of the job, as soon as the cluster has it."""
    end = time.monotonic() + _TAKEN_SECONDS
    while time.monotonic() < end:
        if _state(result) in {PipelineState.FAILED, PipelineState.CANCELLED}:
            finish(result, runner)
        with suppress(OSError, ValueError, KeyError):
            with urllib.request.urlopen(f"{cluster}/jobs/overview", timeout=10) as answer:  # noqa: S310 - typed
                jobs = json.loads(answer.read())["jobs"]
            named = [job for job in jobs if str(job["name"]) == name]
            if named:
                return str(max(named, key=lambda job: job["start-time"])["jid"])
        time.sleep(_ASK_SECONDS)
    raise JobError(
        "E-RUN-JOB",
        f"the cluster {cluster} did not take the job {name} within {_TAKEN_SECONDS:.0f} s",
        remedy="Look at the logs of the cluster and of the job server.",
    )
