"""What the command ``run`` does: over files, over messages, or over files as if they were messages.

Values are by the names of the fields that they fill; ``files`` are patterns. All of this needs Beam.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from ldpbeam.collection.collection import Collection
from ldpbeam.errors import UsageError
from ldpbeam.text import clean
from ldpbeam.transforms.sinks import check_sinks
from ldpbeam.transforms.sources import chosen_source

from ... import run as bounded
from ...beam_job import dry_run
from ...config import RunConfig
from ...file_times import doubtful_times
from ...inputs import CLUSTER_SHARD_BITS, Inputs, find_inputs, shard_bits_for, waits_on_disk
from ...local.status import Status
from ...run_record import RunRecord, record_before
from ...stream_job import build, run_local, served_at, submit
from .collections import introduction
from .console import Mode, deliver, mode, say
from .outcome import summary
from .progress import Bar
from .stream_lines import StreamLines


def run_over_files(collections: tuple[Collection, ...], values: Mapping[str, Any]) -> int:
    """Run the pipeline over files and say what became of every record; gives the exit code.

    Raises:
        UsageError: the job cannot start.
        LdpError: it failed.
    """
    found = find_inputs(values["files"])
    held = not waits_on_disk(values.get("runner", "FnApiRunner"), values["output"])
    config = _config(collections, found, {"shard_bits": shard_bits_for(found.size, held=held), **values})
    if config.input.not_after is None:
        for line in doubtful_times(found.paths, collections, int(time.time())):
            click.echo(clean(f"ldpbeam: {line}"), err=True)
    if not config.job.starts:
        say(dry_run(bounded.build(config), config))
        return 0
    with Bar("run", found.size, "bytes") as bar:
        record = bounded.run(config, bar.reach, found.size)
    summary(record, config.outputs.output)
    return record.exit_code


def _config(collections: tuple[Collection, ...], found: Inputs, values: Mapping[str, Any]) -> RunConfig:
    """The run that is asked for, with its sinks checked and its collections introduced."""
    config = RunConfig.parsed(
        collections, **{**values, "files": found.paths, "passed_over": found.passed_over}
    )
    check_sinks(config.outputs.targets)
    _require_supported(config)
    for note in found.notes:
        click.echo(f"ldpbeam: {note}", err=True)
    for collection in collections:
        say(introduction(collection))
    return config


def run_over_messages(collections: tuple[Collection, ...], values: Mapping[str, Any]) -> int:
    """Run over messages, or over files as if they were a stream; gives the exit code.

    Raises:
        UsageError: the job cannot start.
        LdpError: it failed.
    """
    found = find_inputs(values["files"]) if values["files"] else Inputs((), 0)
    bits = 0 if values["runner"] == "FnApiRunner" else CLUSTER_SHARD_BITS
    config = _config(collections, found, {"shard_bits": bits, **values})
    if not config.job.starts:
        say(dry_run(build(config), config))
        return 0
    output, source = config.outputs.output, config.input.subscription or config.input.watch
    if config.job.local and source:
        say(f"reading {source}; Ctrl-C or SIGTERM drains and stops")
        if config.engine.serve:
            host, port = served_at(config.engine.serve)
            say(f"the page is at http://{f'[{host}]' if ':' in host else host}:{port}/")
        lines = mode() is Mode.JSON
        reads = "the folder" if config.input.watch else "Pub/Sub"
        shown = StreamLines(record_before(output))
        record = run_local(config, _json_line if lines else partial(_line, shown, source=reads))
        if lines:
            total = record.accounting.total.as_record()
            click.echo(json.dumps({"event": "stopped", "exit_code": record.exit_code, **total}))
            return record.exit_code
        say("stopped")
    else:
        done = submit(config, warn=partial(click.echo, err=True))
        if done is None or done.job is not None:
            if done is not None and done.job is not None:
                say(_named(done.job))
                deliver(done.as_record())
            say(f"submitted; results will appear in {output}")
            return 0
        record = done
    summary(record, output)
    return record.exit_code


def _require_supported(config: RunConfig) -> None:
    """Raise UsageError for a source that the engine on one machine does not read."""
    source = chosen_source(config.input.given)
    reads = config.input.subscription or config.input.watch
    if config.job.local and source is not None and not reads:
        raise UsageError(
            "E-USAGE-SOURCE",
            f"the runner of this machine does not read from {source.target.option}",
            remedy="Run on a cluster (--runner FlinkRunner), or use --subscription, --watch or --input.",
        )
    if config.job.local and config.input.given.get("pubsub_expansion"):
        raise UsageError(
            "E-USAGE-SOURCE",
            "the runner of this machine reads Pub/Sub by itself",
            remedy="Leave --pubsub-expansion out, or run on a cluster (--runner FlinkRunner).",
        )
    if config.input.watch and config.input.timestamp_attribute:
        raise UsageError(
            "E-USAGE-SOURCE",
            "files have no attributes; those of a collector hold the arrival themselves",
            remedy="Leave --timestamp-attribute out with --watch.",
        )


def _named(job: Mapping[str, str]) -> str:
    """Which job it is, for whoever is to look after it."""
    what = job.get("cluster_id") or job.get("id") or job.get("name") or "a job"
    return f"{what} on {job.get('cluster') or job['runner']}"


def _line(lines: StreamLines, event: str, record: RunRecord, status: Status, source: str = "Pub/Sub") -> None:
    """For people: what has changed of the accounting, and what keeps results from coming."""
    if event == "published":
        for line in lines.changed(record):
            say(line)
    else:
        said = _EVENTS[event].format(ahead=status.clock_ahead, source=source)
        click.echo(f"ldpbeam: {said}", err=True)


def _json_line(event: str, record: RunRecord, status: Status) -> None:
    """For programs: one object per line."""
    click.echo(json.dumps({"event": event, "time": round(time.time(), 3), **status.as_record()}))


_EVENTS = {
    "disconnected": "{source} does not answer; results wait until it does. [W-STREAM-DISCONNECTED]",
    "connected": "{source} answers again.",
    "clock": "the clock of this machine is {ahead:+.0f} s away from what messages and its steady clock say; "
    "no epoch closes because of it. [W-STREAM-CLOCK]",
}
