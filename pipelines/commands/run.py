"""The command ``run``: reports to estimates, over files or over messages."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ldpbeam.errors import UsageError
from ldpbeam.transforms.sources import chosen_source, source_options

from ..config import resolve_runner
from ..option import Over
from .support.console import PrintingCommand
from .support.options import collections_option, given, run_options


@click.command(
    cls=PrintingCommand, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@collections_option
@run_options
@click.pass_context
def run(context: click.Context, /, collection_files: tuple[Path, ...], **typed: Any) -> None:
    """Turn reports into estimates. Further options go to Beam.

    Over files it ends once all are counted. From a subscription, or a folder that grows, it runs until
    SIGTERM or Ctrl-C, and then drains: it counts all that it has received.
    On a cluster (--runner FlinkRunner, DataflowRunner) a subscription or --streaming makes a job with state.

    Exit codes: 0 ok, 2 usage, 3 invalid collection, 4 ok with rejects, 5 nothing was counted or an epoch
    withheld for errors, 6 internal, 130 interrupted.
    """
    from ..inputs import split_arguments

    patterns = typed["files"]
    files, beam_args = split_arguments(context.args, files_allowed=bool(patterns))
    patterns += files
    _require_one_source(patterns, typed)
    messages = not patterns or "--streaming" in beam_args
    runner = resolve_runner(typed["runner"])
    over = {Over.FILES} if patterns else {Over.LOCAL} if runner == "FnApiRunner" else set()
    values = given(context, over | {Over.MESSAGES} if messages else over)
    values |= {"files": patterns, "runner": runner, "beam_args": beam_args}

    from .support.collections import load

    collections = tuple(load(path) for path in collection_files)
    # Before Beam is imported: it warns on the root logger about optional packages that nobody asked for.
    logging.basicConfig(level=logging.ERROR)
    from .support.running import run_over_files, run_over_messages

    sys.exit((run_over_messages if messages else run_over_files)(collections, values))


def _require_one_source(patterns: tuple[str, ...], typed: Mapping[str, Any]) -> None:
    """Raise UsageError unless reports come from one kind of place, with all that it needs."""
    source = chosen_source({option.name: typed[option.name] or "" for option in source_options()})
    if bool(patterns) + bool(source) != 1:
        raise UsageError(
            "E-USAGE-SOURCE",
            "reports come from files, a folder that grows, a subscription or a topic, and "
            + ("more than one of them was given" if patterns else "none was given"),
            remedy="Give --input GLOB, --watch DIR, --subscription projects/P/subscriptions/S, "
            "or --kafka-topic TOPIC.",
        )
