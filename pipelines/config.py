"""What a run was asked to do, parsed once into frozen values; nothing below sees a namespace object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ldpbeam.collection.collection import Collection
from ldpbeam.errors import UsageError
from ldpbeam.pipelines.limits import LIMITS, MAX_EPOCHS, MAX_EXPANSION, READ_ATTEMPTS
from ldpbeam.schedule import DEFAULT_LATE_EVERY
from ldpbeam.transforms.sinks import SINKS, Outputs

if TYPE_CHECKING:
    from ldpbeam.transforms.sources.chunks import ReadLimits

__all__ = [
    "ASK_THEIR_SERVER",
    "OPTIONS",
    "RunConfig",
    "resolve_runner",
]

# Names people type, by what they mean for files. Beam's own DirectRunner first tries to download a binary and
# falls back silently, so it is never used under that name.
_RUNNERS = {"DirectRunner": "FnApiRunner"}

ASK_THEIR_SERVER = frozenset({"FlinkRunner", "PortableRunner", "PrismRunner", "SparkRunner"})
"""Runners whose job server may know options that Beam's Python part does not."""

LOCAL_STREAM = frozenset({"estimates", "latest", "rejects", "accounting", "landing"})
"""What the local engine keeps in its output directory."""

OPTIONS = (
    "--collection",
    "--input",
    "--output",
    "--overwrite",
    "--runner",
    "--dedup",
    "--no-dedup",
    "--max-error-fraction",
    "--subscription",
    "--kafka-servers",
    "--kafka-topic",
    "--kafka-expansion",
    "--pubsub-expansion",
    "--timestamp-attribute",
    "--early-every",
    "--late-every",
    "--settle",
    "--land-every",
    "--land-messages",
    "--land-bytes",
    "--keep-landed",
    "--keep-accounting",
    "--metrics",
    "--stop-when-idle",
    *(sink.option for sink in SINKS.values()),
    "--shard-bits",
    "--max-expansion",
    "--max-epochs",
    "--not-after",
    "--read-attempts",
    "--job",
    "--detach",
    "--quiet",
    "--json",
)
"""What ``ldpbeam run`` itself takes."""


@dataclass(frozen=True)
class RunConfig:
    """One run over files.

    Attributes:
        collections: what reports may belong to.
        inputs: paths of the matched input files, in order.
        output: output directory.
        max_error_fraction: no estimate is published for an epoch of which more was rejected.
        deduplicate: whether repeated report ids are dropped.
        shard_bits: 2**bits shards per epoch for that.
        early_every: seconds between provisional results while an epoch lasts; 0 for none. Streams only, as
            all down to ``job``.
        late_every: seconds between results that late reports cause.
        subscription: ``projects/P/subscriptions/S`` to read from instead of files.
        kafka_servers, kafka_topic: a Kafka topic to read from instead, on a cluster.
        kafka_expansion: ``host:port`` of Beam's expansion service for Kafka.
        pubsub_expansion: ``host:port`` of Beam's expansion service for Pub/Sub, where Dataflow does not run.
        timestamp_attribute: message attribute that says when a collector received it; empty for the time
            of publication.
        land_every: seconds of messages that the local engine lands together.
        land_messages, land_bytes: how much it lands together at most.
        settle: seconds after which it takes messages for complete.
        patience: seconds after which it believes a clock, or stamps, that nothing confirms.
        keep_landed: seconds for which it keeps what is closed, so that it can be counted again.
        keep_books: closed epochs whose books it keeps in files of their own, and in run.json; when there are
            twice as many, the older ones move into the archive.
        keep_accounting: seconds for which archived books are kept by epoch; after that as a sum.
        merge_segments: landed segments of a kind that it merges into one, at least.
        sinks: targets of the optional sinks, by name.
        job: name of an unbounded job, for what several jobs may write to one output.
        overwrite: whether results of other collections in the output may be replaced.
        max_expansion: bytes of reports that a stored byte of a file may stand for. Files only, as all down to
            ``read_attempts``.
        max_epochs: epochs of a collection that a run has at most.
        not_after: seconds since 1970 by which the files had been written; None for their own times.
        read_attempts: how often a file is tried that cannot be read.
        runner: Beam runner that really runs.
        beam_args: further Beam options, as typed.
    """

    collections: tuple[Collection, ...]
    inputs: tuple[str, ...]
    output: str
    deduplicate: bool = True
    max_error_fraction: float = 0.1
    shard_bits: int = 0
    early_every: int = 0
    late_every: int = DEFAULT_LATE_EVERY
    subscription: str = ""
    kafka_servers: str = ""
    kafka_topic: str = ""
    kafka_expansion: str = ""
    pubsub_expansion: str = ""
    timestamp_attribute: str = ""
    land_every: float = 5.0
    land_messages: int = 10_000
    land_bytes: int = 64 << 20
    settle: float = 30.0
    patience: float = 600.0
    keep_landed: int = 7 * 86400
    keep_books: int = 128
    keep_accounting: int = 2 * 365 * 86400
    merge_segments: int = 32
    job: str = ""
    sinks: Mapping[str, str] = field(default_factory=dict)
    overwrite: bool = False
    max_expansion: int = MAX_EXPANSION
    max_epochs: int = MAX_EPOCHS
    not_after: int | None = None
    read_attempts: int = READ_ATTEMPTS
    runner: str = "FnApiRunner"
    beam_args: tuple[str, ...] = ()

    @property
    def streaming(self) -> bool:
        """Whether the graph is the unbounded one."""
        return bool(self.subscription or self.kafka_topic) or "--streaming" in self.beam_args

    @property
    def outputs(self) -> Outputs:
        """Where the results go."""
        return Outputs(self.output, self.job, self.sinks)

    @property
    def starts(self) -> bool:
        """Whether a job comes of it: not with --dry_run, nor when a template is to be written."""
        return not {a.partition("=")[0] for a in self.beam_args} & {"--dry_run", "--template_location"}

    @property
    def spread(self) -> bool:
        """Whether files must be handed out to several workers first; one worker takes them as they come."""
        single = {"--direct_num_workers=1", "--direct_running_mode=in_memory"}
        return self.runner != "FnApiRunner" or any(
            a.startswith("--direct_") and a not in single for a in self.beam_args
        )

    @property
    def encoded_inputs(self) -> list[bytes]:
        """The paths as bytes: a file's name need not be text."""
        return [path.encode("utf-8", "surrogateescape") for path in self.inputs]

    @property
    def limits(self) -> dict[str, int | None]:
        """What of hostile files is read and kept, for run.json."""
        return {name: getattr(self, name) for name in LIMITS}

    @property
    def read_limits(self) -> ReadLimits:
        """The same, for the reader of files."""
        from ldpbeam.transforms.sources.chunks import ReadLimits

        return ReadLimits(self.max_expansion, self.read_attempts, self.not_after)

    def __post_init__(self) -> None:
        """Validate.

        Raises:
            UsageError: no collection, or two that cannot be told apart.
        """
        if not self.collections:
            raise UsageError(
                "E-USAGE-COLLECTION",
                "no collection was given",
                remedy="Add --collection FILE, once per collection.",
            )
        seen: dict[int, str] = {}
        for collection in self.collections:
            if collection.digest in seen:
                raise UsageError(
                    "E-USAGE-COLLECTION",
                    f"collection {collection.name!r} (digest {collection.digest_hex}) was given twice",
                    remedy="Give each collection once.",
                )
            seen[collection.digest] = collection.name
        versions: dict[tuple[str, int], str] = {}
        for collection in self.collections:
            other = versions.setdefault((collection.name, collection.version), collection.digest_hex)
            if other != collection.digest_hex:
                raise UsageError(
                    "E-USAGE-COLLECTION",
                    f"two collections are called {collection.name!r} version {collection.version} "
                    f"(digests {other} and {collection.digest_hex})",
                    remedy="Raise version in the file that was changed.",
                )


def resolve_runner(name: str | None) -> str:
    """The runner that will really run for what the user typed."""
    return _RUNNERS.get(name or "DirectRunner", name or "FnApiRunner")
