"""An option of ``run`` is one field of a value in ldpbeam/job/config.py, and the place that uses it."""

from __future__ import annotations

from typing import Any

import click
import pytest

from ldpbeam.cli.shared.options import given, run_options
from ldpbeam.job import config
from ldpbeam.job.config import Input, RunConfig
from ldpbeam.job.option import Over
from ldpbeam.transforms.sinks import Outputs
from tests.pipelines.running import collection


def test_an_option_of_run_is_in_the_template_unless_it_says_why_not() -> None:
    lacks = {
        name: config.options()[name][0].template_lacks for name in ("shard_bits", "runner", "max_epochs")
    }
    assert lacks == {"shard_bits": "", "runner": "the launcher gives it", "max_epochs": "of runs over files"}


def test_every_value_of_a_run_can_be_given_and_changed_by_name() -> None:
    names = [name for kind in config._VALUES for name in kind.__dataclass_fields__]
    assert len(names) == len(set(names))
    assert not {"output", "job"} & set(names)
    one = RunConfig((collection(),), Input(), Outputs("out"))
    assert one == RunConfig.parsed((collection(),), output="out")
    there = one.changed(
        output="there", job="j", publish_topic="t", watermark_delay=1.5, files=("a",), runner="R"
    )
    assert there.outputs == Outputs("there", "j", {"publish_topic": "t"})
    assert (there.engine.watermark_delay, there.input.files, there.job.runner) == (1.5, ("a",), "R")
    assert there.changed(output="out").outputs.targets == {"publish_topic": "t"}
    with pytest.raises(TypeError, match="no value of a run is called setle"):
        one.changed(setle=1.0)


def parsed(arguments: list[str], *over: Over) -> RunConfig:
    """The run that a command with the options of ``run`` is asked for."""
    kept: list[dict[str, Any]] = []

    @click.command()
    @run_options
    @click.pass_context
    def toy(context: click.Context, /, **_: Any) -> None:
        kept.append(given(context, over))

    toy.main(["--output", "out", *arguments], standalone_mode=False)
    return RunConfig.parsed((collection(),), **kept[0])


def test_options_over_files_say_nothing_about_messages() -> None:
    arguments = ["--max-epochs", "5", "--not-after", "2026-01-01T00:00:00Z", "--overwrite"]
    assert parsed(arguments, Over.MESSAGES) == parsed([], Over.MESSAGES)
    there = parsed(arguments, Over.FILES)
    assert (there.input.max_epochs, there.input.not_after, there.job.overwrite) == (5, 1_767_225_600, True)
