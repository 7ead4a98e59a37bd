"""What it takes to add a command or an option of ``run``, shown by adding one of each in the documented way.

A command is one module of ldpbeam/cli/. An option of ``run`` is one field of a value in
ldpbeam/job/config.py, and the place that uses it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import field, make_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ldpbeam import cli as commands
from ldpbeam.cli.main import cli, commands_of
from ldpbeam.cli.shared.options import given, run_options
from ldpbeam.errors import UsageError
from ldpbeam.job import config
from ldpbeam.job.config import Input, RunConfig
from ldpbeam.job.option import Option, OptionKind, Over
from ldpbeam.pipelines import beam_job
from ldpbeam.transforms.sinks import Outputs
from tests.pipelines.running import collection

COMMAND = '''
"""The command ``greet``: a toy."""

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say


@click.command(cls=PrintingCommand)
@click.argument("name")
def greet(name: str) -> None:
    """Greet somebody."""
    say(f"hello {name}")
    deliver({"greeted": name})
'''


@pytest.fixture
def greeting(tmp_path: Path) -> Iterator[click.Command]:
    """The toy command, found as the others are: its module is all there is."""
    (tmp_path / "greet.py").write_text(COMMAND)
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "__init__.py").write_text("raise AssertionError('no command')")
    package = ModuleType("toys")
    package.__path__ = [str(tmp_path)]
    sys.modules["toys"] = package
    try:
        (found,) = commands_of(package)
        yield found
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "toys"]:
            del sys.modules[name]


def test_a_command_is_one_module(greeting: click.Command) -> None:
    """It is found, has --quiet and --json, and prints through the console."""
    assert greeting.name == "greet"
    lines, document = (CliRunner().invoke(greeting, ["you", *more]).output for more in ([], ["--json"]))
    assert lines == "hello you\n"
    assert json.loads(document) == {"greeted": "you"}
    assert CliRunner().invoke(greeting, ["you", "--quiet"]).output == ""


def test_every_module_beside_the_group_is_a_command() -> None:
    """What stands in ldpbeam/cli/ is what ``ldpbeam --help`` lists."""
    folder = Path(next(iter(commands.__path__)))
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "main"}
    assert modules == set(cli.commands)


TOY = Option(
    "Do nothing for this long.", kind=OptionKind.DURATION, metavar="DURATION", shown=True, over=Over.MESSAGES
)


@pytest.fixture
def with_toy_option(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """A value with one more field, ``nap``, in the place of Counting."""
    kind = make_dataclass(
        "Counting",
        [("nap", int, field(default=90, metadata={"option": TOY}))],
        bases=(config.Counting,),
        frozen=True,
    )
    monkeypatch.setattr(config, "_VALUES", (Input, kind, *config._VALUES[2:]))
    monkeypatch.setattr(config, "Counting", kind)
    return kind


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


@pytest.mark.usefixtures("with_toy_option")
def test_an_option_of_run_is_one_field() -> None:
    """It is on the command line with its default and its kind, in the values, and a misspelling finds it."""
    assert parsed([], Over.MESSAGES).counting.nap == 90  # type: ignore[attr-defined]
    assert parsed(["--nap", "2m"], Over.MESSAGES).counting.nap == 120  # type: ignore[attr-defined]
    assert parsed([], Over.FILES).counting.nap == 90  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"--nap is for messages and has no effect on files.*E-USAGE-OPTION"):
        parsed(["--nap", "2m"], Over.FILES)
    with pytest.raises(UsageError, match=r"--nap must be at least 1s.*E-USAGE-OPTION"):
        parsed(["--nap", "0s"], Over.MESSAGES)
    with pytest.raises(UsageError, match="Did you mean --nap"):
        beam_job.beam_options(parsed([]).changed(beam_args=("--napp=1m",)))
    assert parsed([]).changed(nap=7).counting.nap == 7  # type: ignore[attr-defined]


@pytest.mark.usefixtures("with_toy_option")
def test_an_option_of_run_is_in_the_template_unless_it_says_why_not() -> None:
    option, default = config.options()["nap"]
    assert (option.template_lacks, default) == ("", 90)
    assert replace(option, not_in_template="a toy").template_lacks == "a toy"
    assert replace(option, over=Over.FILES).template_lacks == "of runs over files"


def test_every_value_of_a_run_can_be_given_and_changed_by_name() -> None:
    """No two values share a name, and a name that there is not is no silent default."""
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


def test_what_is_shown_as_default_is_the_default() -> None:
    """Defaults are shown as people write them, such as 7d; an option that is left out changes nothing."""
    assert (
        parsed([], Over.FILES) == parsed([], Over.MESSAGES) == RunConfig.parsed((collection(),), output="out")
    )
    typed = parsed(["--shard-bits", "0", "--early-every", "10m", "--no-dedup"], Over.MESSAGES)
    assert typed.counting == config.Counting(deduplicate=False, shard_bits=0, early_every=600)


def test_options_over_files_say_nothing_about_messages() -> None:
    """Typed or not, they leave no trace in the values of a stream, nor in its run.json."""
    arguments = ["--max-epochs", "5", "--not-after", "2026-01-01T00:00:00Z", "--overwrite"]
    assert parsed(arguments, Over.MESSAGES) == parsed([], Over.MESSAGES)
    there = parsed(arguments, Over.FILES)
    assert (there.input.max_epochs, there.input.not_after, there.job.overwrite) == (5, 1_767_225_600, True)
