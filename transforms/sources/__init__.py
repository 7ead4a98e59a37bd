"""Where reports come from: files always, and the message brokers of :data:`SOURCES`.

A further source is a module in this folder, and an entry in :data:`SOURCES`. Its module has a function
``read(given, runner, portable)``, which takes the values of the options by name, and gives the transform that
reads messages, each as bytes or as Beam's ``PubsubMessage``, with its arrival as timestamp. Nothing here
imports Beam: the command line makes its options from this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ldpbeam.errors import UsageError


@dataclass(frozen=True)
class SourceOption:
    option: str  # its spelling
    metavar: str  # how a value looks
    help: str  # what it does
    needed: bool = False  # whether it must be given with the source

    @property
    def name(self) -> str:
        return self.option.removeprefix("--").replace("-", "_")


@dataclass(frozen=True)
class Broker:
    """A message broker as a source of reports: its options, and the module that reads from it."""

    target: SourceOption  # the option that chooses the source, and says what to read from
    more: tuple[SourceOption, ...]  # its other options
    module: str  # module in this folder, with the function ``read``

    def read(self, given: Mapping[str, str], runner: str, *, portable: bool) -> Any:
        """Make the transform that reads messages; needs Beam."""
        return import_module(f"{__name__}.{self.module}").read(given, runner, portable=portable)

    def check(self, given: Mapping[str, str]) -> bool:
        """Whether this source is chosen."""
        if not given.get(self.target.name):
            for option in self.more:
                if given.get(option.name):
                    raise _incomplete(f"{option.option} goes with {self.target.option}", self._needed())
            return False
        for option in self.more:
            if option.needed and not given.get(option.name):
                raise _incomplete(f"{self.target.option} needs {option.option}", self._needed())
        return True

    def _needed(self) -> Iterator[str]:
        for option in (self.target, *(option for option in self.more if option.needed)):
            yield f"{option.option} {option.metavar}"


def _incomplete(message: str, needed: Iterator[str]) -> UsageError:
    return UsageError("E-USAGE-OPTION", message, remedy=f"Give {' '.join(needed)}, or leave it out.")


SOURCES: dict[str, Broker] = {
    source.target.name: source
    for source in (
        Broker(
            SourceOption(
                "--subscription",
                "projects/P/subscriptions/S",
                "Pub/Sub subscription of reports, instead of files: runs until it is stopped.",
            ),
            (
                SourceOption(
                    "--pubsub-expansion",
                    "HOST:PORT",
                    "Beam's expansion service for Pub/Sub, for --subscription on Flink: ldpbeam docs flink.",
                ),
            ),
            "pubsub",
        ),
        Broker(
            SourceOption("--kafka-topic", "TOPIC", "Kafka topic of reports, instead of files; on a cluster."),
            (
                SourceOption("--kafka-servers", "HOST:PORT,…", "Brokers of the topic.", needed=True),
                SourceOption(
                    "--kafka-expansion",
                    "HOST:PORT",
                    "Beam's expansion service for Kafka: ldpbeam docs flink.",
                    needed=True,
                ),
            ),
            "kafka",
        ),
        Broker(
            SourceOption(
                "--watch",
                "DIR",
                "Folder that ldpbeam collect writes to, counted as it grows: runs until it is stopped.",
            ),
            (),
            "watch",
        ),
    )
}
"""The message brokers, by the name of the option that chooses each."""


def source_options() -> list[SourceOption]:
    return [option for source in SOURCES.values() for option in (source.target, *source.more)]


def chosen_source(given: Mapping[str, str]) -> Broker | None:
    """The source that the options choose; None for files."""
    chosen = [source for source in SOURCES.values() if source.check(given)]
    if len(chosen) > 1:
        names = " and ".join(source.target.option for source in chosen)
        raise UsageError(
            "E-USAGE-OPTION",
            f"{names} were given, but a run reads from one source",
            remedy="Give one of them.",
        )
    return chosen[0] if chosen else None
