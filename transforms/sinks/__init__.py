"""Where results go: files always, and the optional sinks of :data:`SINKS`.

A further sink is a module in this folder, and an entry in :data:`SINKS`. Its module defines a DoFn that takes
a collection and a target, passes histograms on once the target has them (see
:class:`~ldpbeam.transforms.sinks.confirmed_sink.ConfirmedSink`), and has a static method ``check(target)``.
Nothing here imports Beam: the command line makes its options from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection


@dataclass(frozen=True)
class Sink:
    """Where results go besides files, if an option says so: a table or a topic."""

    option: str  # of ``ldpbeam run``, which gives the target
    metavar: str  # how a target looks
    help: str  # what the option does
    template: tuple[str, str]  # type of the parameter of a Dataflow template, and the pattern of its values
    label: str  # of the step in the graph. It stays, so that a running job can be replaced
    step: tuple[str, str]  # module in this folder, and the DoFn in it

    @property
    def name(self) -> str:
        return self.option.removeprefix("--").replace("-", "_")

    def load(self) -> Any:
        module, name = self.step
        return getattr(import_module(f"{__name__}.{module}"), name)


SINKS: dict[str, Sink] = {
    sink.name: sink
    for sink in (
        Sink(
            "--publish-topic",
            "projects/P/topics/T",
            "Also publish every revision to this Pub/Sub topic.",
            ("PUBSUB_TOPIC", r"^projects/[^/]+/topics/[^/]+$"),
            "Topic",
            ("topic", "PublishEstimates"),
        ),
        Sink(
            "--bigquery-table",
            "P:DATASET.TABLE",
            "Also insert every revision into this BigQuery table.",
            ("BIGQUERY_TABLE", r"^[^\s:]+[:.]\w+\.[-\w]+$"),
            "BigQuery",
            ("bigquery", "WriteEstimatesToBigQuery"),
        ),
    )
}
"""The optional sinks by name, in the order in which results reach them."""


@dataclass(frozen=True)
class Outputs:
    output: str
    job: str = ""
    targets: Mapping[str, str] = field(default_factory=dict)


def check_sinks(targets: Mapping[str, str]) -> None:
    for name, target in targets.items():
        if target:
            SINKS[name].load().check(target)


def chosen_sinks(collection: Collection, outputs: Outputs) -> dict[str, Any]:
    """The optional sinks that were asked for, by the labels of their steps, in the order of :data:`SINKS`."""
    return {
        sink.label: sink.load()(collection, outputs.targets[name])
        for name, sink in SINKS.items()
        if outputs.targets.get(name)
    }
