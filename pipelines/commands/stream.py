"""What the command ``run`` does with a stream, once its arguments are known."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from ldpbeam.collection.epochs import parse_duration
from ldpbeam.errors import UsageError
from ldpbeam.pipelines.commands.actions import books_line, introduction, load, summary
from ldpbeam.pipelines.commands.console import Mode, deliver, mode, say
from ldpbeam.pipelines.config import RunConfig, resolve_runner
from ldpbeam.pipelines.local.status import Status, parse_address
from ldpbeam.pipelines.run_record import RunRecord
from ldpbeam.transforms.sinks import check_sinks

__all__ = ["run_stream"]


def run_stream(  # noqa: PLR0913 - one argument per option
    collection_files: tuple[Path, ...],
    patterns: Sequence[str],
    subscription: str | None,
    output: str,
    runner: str | None,
    beam_args: tuple[str, ...],
    *,
    early_every: str | None,
    late_every: str,
    settle: str,
    land_every: str,
    stop_when_idle: str | None,
    shard_bits: int | None,
    detach: bool,
    keep_landed: str = "7d",
    keep_accounting: str = "730d",
    metrics: str | None = None,
    **settings: Any,
) -> int:
    """Run over messages, or over files as if they were a stream; see :func:`run_collection`."""
    collections = tuple(load(path) for path in collection_files)
    logging.basicConfig(level=logging.ERROR)
    from ldpbeam.pipelines.inputs import find_inputs
    from ldpbeam.pipelines.run import rehearse
    from ldpbeam.pipelines.stream_job import build, run_local, submit

    check_sinks(settings.get("sinks", {}))
    inputs = find_inputs(patterns).paths if patterns else ()
    runner = resolve_runner(runner)
    local = runner == "FnApiRunner"
    config = RunConfig(
        collections=collections,
        inputs=inputs,
        output=output,
        subscription=subscription or "",
        runner=runner,
        beam_args=beam_args,
        early_every=_seconds("--early-every", early_every) if early_every else 0,
        late_every=_seconds("--late-every", late_every),
        settle=_seconds("--settle", settle),
        land_every=_seconds("--land-every", land_every),
        keep_landed=_seconds("--keep-landed", keep_landed),
        keep_accounting=_seconds("--keep-accounting", keep_accounting),
        shard_bits=(0 if local else 3) if shard_bits is None else shard_bits,
        **settings,
    )
    if local and config.kafka_topic:
        raise UsageError(
            "E-USAGE-SOURCE",
            "the runner of this machine does not read Kafka",
            remedy="Run on a cluster (--runner FlinkRunner), or use --subscription or --input.",
        )
    if local and config.pubsub_expansion:
        raise UsageError(
            "E-USAGE-SOURCE",
            "the runner of this machine reads Pub/Sub by itself",
            remedy="Leave --pubsub-expansion out, or run on a cluster (--runner FlinkRunner).",
        )
    idle = _seconds("--stop-when-idle", stop_when_idle) if stop_when_idle else None
    address = parse_address(metrics) if metrics else None
    for collection in collections:
        say(introduction(collection))
    if not config.starts:
        say(rehearse(build(config), config))
        return 0
    if local and subscription:
        say(f"reading {subscription}; Ctrl-C or SIGTERM drains and stops")
        lines = mode() is Mode.JSON
        result = run_local(config, idle, _json_line if lines else _line, address)
        if lines:
            total = result.accounting.total.as_record()
            click.echo(json.dumps({"event": "stopped", "exit_code": result.exit_code, **total}))
            return result.exit_code
        say("stopped")
    else:
        done = submit(config, wait=not detach, warn=partial(click.echo, err=True))
        if done is None or done.job is not None:
            if done is not None and done.job is not None:
                say(_named(done.job))
                deliver(done.as_record())
            say(f"submitted; results will appear in {output}")
            return 0
        result = done
    summary(result, output)
    return result.exit_code


def _named(job: Mapping[str, str]) -> str:
    """Which job it is, for whoever is to look after it."""
    what = job.get("cluster_id") or job.get("id") or job.get("name") or "a job"
    return f"{what} on {job.get('cluster') or job['runner']}"


def _line(event: str, record: RunRecord, status: Status) -> None:
    """For people: the books as far as they are told, and what keeps results from coming."""
    if event == "published":
        books_line(record)
    else:
        click.echo(f"ldpbeam: {_EVENTS[event].format(ahead=status.clock_ahead)}", err=True)


def _json_line(event: str, record: RunRecord, status: Status) -> None:
    """For programs: one object per line."""
    click.echo(json.dumps({"event": event, "time": round(time.time(), 3), **status.as_record()}))


_EVENTS = {
    "disconnected": "Pub/Sub does not answer; results wait until it does. [W-STREAM-DISCONNECTED]",
    "connected": "Pub/Sub answers again.",
    "clock": "the clock of this machine is {ahead:+.0f} s away from what messages and its steady clock say; "
    "no epoch closes because of it. [W-STREAM-CLOCK]",
}


def _seconds(option: str, text: str) -> int:
    """A duration of at least a second.

    Raises:
        UsageError: it is not.
    """
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageError(
            "E-USAGE-DURATION", f"{option}: {error}", remedy="Write for example 90s or 10m."
        ) from None
    if seconds < 1:
        raise UsageError(
            "E-USAGE-DURATION", f"{option} must be at least 1s", remedy="Write for example 90s or 10m."
        )
    return seconds
