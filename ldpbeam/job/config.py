"""What a run was asked to do: small frozen values, parsed once from the command line.

A field that a person may set stands beside its :class:`Option`, whose help says what it is; durations are in
seconds. The command line, the suggestions for a misspelt option, and the parameters of the Dataflow template
are made from these fields. So a further option of ``ldpbeam run`` is one field here, and the
place that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ldpbeam.collection.distinct_collections import require_distinct
from ldpbeam.job.option import Option, OptionKind, Over, count, duration, flag, set_by
from ldpbeam.schedule import DEFAULT_LATE_EVERY
from ldpbeam.transforms.sinks import SINKS, Outputs
from ldpbeam.transforms.sources import chosen_source, source_options

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection

# Names people type, by what they mean for files. Beam's own DirectRunner first tries to download a binary and
# falls back silently, so it is never used under that name.
_RUNNERS = {"DirectRunner": "FnApiRunner"}

ASK_THEIR_SERVER = frozenset({"FlinkRunner", "PortableRunner", "PrismRunner", "SparkRunner"})
"""Runners whose job server may know options that Beam's Python part does not."""


@dataclass(frozen=True)
class Input:
    files: tuple[str, ...] = set_by(
        (),
        "Files of reports: a file, a folder or a quoted pattern; repeat it for several.",
        kind=OptionKind.TEXTS,
        metavar="GLOB",
        names="--input",
        not_in_template="a template reads a subscription",
    )
    timestamp_attribute: str = set_by(
        "",
        "Message attribute that says when a collector received it (milliseconds since 1970, or RFC 3339); "
        "else the time of publication counts.",
        metavar="NAME",
        over=Over.MESSAGES,
    )
    max_expansion: int = count(
        100,  # of sound reports, with their random ids, it is below 10
        "Bytes of reports that each stored byte of a file may stand for; the rest is rejected unread.",
        over=Over.FILES,
    )
    max_epochs: int = count(
        10_000,  # a year of hours
        "Epochs of a collection in a run over files; those with the fewest records are left out.",
        over=Over.FILES,
    )
    not_after: int | None = set_by(
        None,
        "When the files had been written; reports of epochs that had not begun are rejected. "
        "Default: each file's time.",
        kind=OptionKind.INSTANT,
        over=Over.FILES,
    )
    read_attempts: int = 3  # of a file that cannot be read
    brokers: Mapping[str, str] = field(default_factory=dict)
    passed_over: tuple[str, ...] = ()

    @property
    def subscription(self) -> str:
        """``projects/P/subscriptions/S``, which the engine on one machine reads; empty for none."""
        return self.brokers.get("subscription", "")

    @property
    def watch(self) -> str:
        """A folder of reports, which the engine on one machine reads as it grows; empty for none."""
        return self.brokers.get("watch", "")

    @property
    def given(self) -> dict[str, str]:
        """What :data:`~ldpbeam.transforms.sources.SOURCES` need to know, by name."""
        return {**self.brokers, "timestamp_attribute": self.timestamp_attribute}

    @property
    def source(self) -> str:
        """What messages come from, as rejects name it; empty for files, which have names of their own."""
        chosen = chosen_source(self.given)
        return self.given[chosen.target.name] if chosen else ""

    @property
    def encoded(self) -> list[bytes]:
        return [path.encode("utf-8", "surrogateescape") for path in self.files]

    @property
    def limits(self) -> dict[str, int | None]:
        """What of hostile files is read and kept, for run.json."""
        names = ("max_expansion", "max_epochs", "not_after", "read_attempts")
        return {name: getattr(self, name) for name in names}


_OUTPUTS = {
    "output": Option("Where estimates/ and run.json go.", metavar="DIR", required=True),
    **{name: Option(sink.help, metavar=sink.metavar) for name, sink in SINKS.items()},
    "job": Option(
        "Name recorded with each revision, to tell jobs that share an output apart. Default: random.",
        metavar="NAME",
        over=Over.MESSAGES,
    ),
}
"""Options that fill :class:`~ldpbeam.transforms.sinks.Outputs`."""


@dataclass(frozen=True)
class Counting:
    """How reports are counted, and when results are published; ``early_every`` is 0 for no early results."""

    deduplicate: bool = set_by(
        True,
        "Count one report per report id, or every report as it comes.",
        kind=OptionKind.FLAG,
        names="--dedup/--no-dedup",
        shown=True,
    )
    max_error_fraction: float = set_by(
        0.1,
        "If a larger part of an epoch's records was rejected, publish no estimate for it.",
        kind=OptionKind.FRACTION,
        shown=True,
    )
    shard_bits: int = set_by(
        0,
        "2**bits shards per epoch. Default: by the input's size; 3 on clusters.",
        kind=OptionKind.COUNT,
        least=0,
        most=8,
    )
    spill_above: int = 16  # MiB of reports that wait in memory for their duplicates; the rest waits on disk
    early_every: int = duration(
        0, "Provisional results while an epoch lasts, such as 10m.", over=Over.MESSAGES
    )
    late_every: int = duration(
        DEFAULT_LATE_EVERY,
        "At most one further result per this long when late reports come.",
        over=Over.MESSAGES,
    )


@dataclass(frozen=True)
class LocalEngine:
    watermark_delay: float = duration(
        30, "Wait this long after an epoch's end for messages under way.", over=Over.LOCAL
    )
    land_every: float = duration(
        5, "How often received messages are written to disk (on one machine only).", over=Over.LOCAL
    )
    land_messages: int = 10_000
    land_bytes: int = 64 << 20
    keep_landed: int = duration(
        7 * 86400, "Keep the reports of closed epochs this long, for replays.", over=Over.LOCAL
    )
    metrics: str = set_by(
        "",
        "Answer Prometheus there; without HOST on this machine only.",
        metavar="[HOST:]PORT",
        over=Over.LOCAL,
    )
    stop_when_idle: float | None = duration(None, "Stop after this long without a message.", over=Over.LOCAL)
    patience: float = 600.0
    keep_accounts: int = 128


@dataclass(frozen=True)
class Job:
    """What runs the pipeline; ``runner`` is the one that really runs, ``beam_args`` are as typed."""

    runner: str = set_by(
        "FnApiRunner",
        "Any Beam runner. Default: FnApiRunner, the local runner, in this process.",
        not_in_template="the launcher gives it",
    )
    overwrite: bool = flag("Over files: replace results of other collections in DIR too.", over=Over.FILES)
    detach: bool = flag(
        "Do not wait for a cluster's job.", over=Over.MESSAGES, not_in_template="a launcher never waits"
    )
    beam_args: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        return self.runner == "FnApiRunner"

    @property
    def starts(self) -> bool:
        """Whether a job comes of it: not with --dry_run, nor when a template is to be written."""
        return not {a.partition("=")[0] for a in self.beam_args} & {"--dry_run", "--template_location"}

    @property
    def spread(self) -> bool:
        """Whether files must be handed out to several workers first; one worker takes them as they come."""
        single = {"--direct_num_workers=1", "--direct_running_mode=in_memory"}
        return not self.local or any(a.startswith("--direct_") and a not in single for a in self.beam_args)


_VALUES = (Input, Counting, LocalEngine, Job)


def options() -> dict[str, tuple[Option, Any]]:
    """Everything that ``ldpbeam run`` itself takes: option and default, by the name of the field it fills."""
    declared: dict[str, tuple[Option, Any]] = {}
    for kind in _VALUES:
        declared |= {
            f.name: (f.metadata["option"], f.default) for f in fields(kind) if "option" in f.metadata
        }
        if kind is Input:
            declared |= {one.name: (Option(one.help, metavar=one.metavar), "") for one in source_options()}
            declared |= {name: (option, "") for name, option in _OUTPUTS.items()}
    return declared


def spellings() -> tuple[str, ...]:
    names = (spelt for name, (option, _) in options().items() for spelt in option.spelt(name).split("/"))
    return (*names, "--collection", "--quiet", "--json")


@dataclass(frozen=True)
class RunConfig:
    collections: tuple[Collection, ...]
    input: Input
    outputs: Outputs
    counting: Counting = field(default_factory=Counting)
    engine: LocalEngine = field(default_factory=LocalEngine)
    job: Job = field(default_factory=Job)

    @classmethod
    def parsed(cls, collections: tuple[Collection, ...], /, **values: Any) -> RunConfig:
        """The run that values by the names of the fields ask for; what they do not name keeps its default."""
        empty = cls(collections, Input(), Outputs(""), Counting(), LocalEngine(), Job())
        return empty.changed(**values)

    def changed(self, **values: Any) -> RunConfig:
        """The same run with other values, by the names of the fields."""
        home = {
            f.name: part
            for part in ("input", "counting", "engine", "job")
            for f in fields(getattr(self, part))
        }
        home |= {"output": "outputs", "job": "outputs"}
        of_brokers = {one.name for one in source_options()}
        if unknown := sorted(set(values) - {*home, *SINKS, *of_brokers}):
            raise TypeError(f"no value of a run is called {', '.join(unknown)}")
        parts: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            if name in home:
                parts.setdefault(home[name], {})[name] = value
        if brokers := {name: value for name, value in values.items() if name in of_brokers}:
            known = values.get("brokers", self.input.brokers)
            parts.setdefault("input", {})["brokers"] = {**known, **brokers}
        if targets := {name: value for name, value in values.items() if name in SINKS}:
            parts.setdefault("outputs", {})["targets"] = {**self.outputs.targets, **targets}
        return replace(self, **{part: replace(getattr(self, part), **new) for part, new in parts.items()})

    @property
    def streaming(self) -> bool:
        return chosen_source(self.input.given) is not None or "--streaming" in self.job.beam_args

    def __post_init__(self) -> None:
        require_distinct(self.collections)


def resolve_runner(name: str | None) -> str:
    """The runner that will really run for what the user typed."""
    return _RUNNERS.get(name or "DirectRunner", name or "FnApiRunner")
