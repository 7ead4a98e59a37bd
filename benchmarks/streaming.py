"""Streams against files in one run, and a stream that grows old.

    python benchmarks/streaming.py throughput [--reports 4000000] [--repeats 5]
    python benchmarks/streaming.py flink --flink JOB_SERVER_JAR [--reports 40000000] [--repeats 3]
    python benchmarks/streaming.py months [--segments 100000] [--epochs 10000]

``throughput`` counts the same reports (LOLOHA, k = 360, batches of 4,096) as files on FnApiRunner, through
the local engine fed from memory, through the local engine fed from a Pub/Sub emulator, and through the graph
for clusters on FnApiRunner. Times include publication of every result; counts are compared bit for bit.
Files, the local engine from memory and the graph on FnApiRunner take turns; times are medians with the least
and the most, ratios those of one round.
``flink`` runs the graph for clusters on an embedded Flink cluster with two slots, in turn over all reports
and over a hundredth of them, each time in a new process, as a user starts a job: the difference is what a
report costs once everything has started.
``months`` simulates two collections for so many epochs, with landed segments all the time. At ten moments it
restarts the engine and says what that takes and holds, and what closing an epoch costs. It forces nothing
to disk, which costs on every machine something else, and its times are those of the processor, which hold
beside other work.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow.dataset as ds

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import parse_collection
from ldpbeam.engine.sources.source import MessageSource
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.job.config import RunConfig
from ldpbeam.job.inputs import CLUSTER_SHARD_BITS
from ldpbeam.wire import codec, report_pb2
from tests.pubsub.emulator import emulator

_BATCH = 4096
_EPOCHS = 4

_YAML = """
name: streaming
domain: {{size: 360}}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
g: 2
epoch: {{length: {length}, origin: {origin}}}
allowed_lateness: {lateness}
"""

Counts = dict[tuple[int, int], int]


def collection(length: str, origin: str, lateness: str) -> Collection:
    """LOLOHA over 360 values."""
    return parse_collection(_YAML.format(length=length, origin=origin, lateness=lateness))


def messages(asked: Collection, epoch: int, reports: int, rng: np.random.Generator) -> Iterator[bytes]:
    """Serialized batches of random, valid reports: counting does not care who sent them."""
    protocol = asked.protocol
    while reports:
        n = min(reports, _BATCH)
        reports -= n
        cells = rng.integers(0, protocol.counter.counts_length, n).astype("<u8")
        payloads = cells.view(np.uint8).reshape(n, 8)[:, : protocol.device.payload_size]
        yield report_pb2.ReportBatch(
            digest=asked.digest,
            epoch=epoch,
            count=n,
            report_ids=rng.integers(0, 1 << 64, n, np.uint64).tolist(),
            payloads=payloads.tobytes(),
        ).SerializeToString()


def newest(output: Path) -> Counts:
    """Support by epoch and value, of the newest revision."""
    table = ds.dataset(output / "estimates").to_table(columns=["epoch", "revision", "value", "support"])
    rows = sorted(table.to_pylist(), key=lambda r: int(r["revision"]))
    return {(r["epoch"], r["value"]): r["support"] for r in rows}


# --- throughput


@dataclass(frozen=True)
class Held:
    """A message in memory."""

    data: bytes
    arrival_micros: int
    stamped: bool = True

    @property
    def published_micros(self) -> int:
        """The time of arrival."""
        return self.arrival_micros


@dataclass(frozen=True)
class FromMemory(MessageSource[Held]):
    """A source that has everything at once."""

    left: list[Held]

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Held]:
        some = self.left[:limit_messages]
        del self.left[:limit_messages]
        if not some:
            time.sleep(min(timeout_seconds, 0.01))
        return some

    def acknowledge(self, some: object) -> None:
        return None


def drain(config: RunConfig, source: Any, batches: int) -> None:
    """Run the engine until everything has come and been told."""
    from ldpbeam.engine.engine import LocalStream

    with Landing(config.outputs.output).locked() as landing:
        engine = LocalStream(config, source, landing)
        seen = 0
        while seen < batches:
            seen += engine.step()
        engine.stop()


class Race:
    """The same reports in several ways, in turn: seconds of each, and whether all count the same."""

    def __init__(self, scratch: Path, reports: int) -> None:
        self._scratch, self._reports = scratch, reports
        self._taken: dict[str, list[float]] = {}
        self._expected: Counts = {}

    def take(self, what: str, work: Callable[[str], object]) -> None:
        """Time ``work``, which is given a new folder for its results."""
        seconds = self._taken.setdefault(what, [])
        output = self._scratch / f"{list(self._taken).index(what)}-{len(seconds)}"
        started = time.perf_counter()
        work(str(output))
        seconds.append(time.perf_counter() - started)
        found = newest(output)
        self._expected = self._expected or found
        assert found == self._expected, what

    def show(self) -> None:
        """Medians with the least and the most; ratios to the first way within one round."""
        first = next(iter(self._taken.values()))
        for what, seconds in self._taken.items():
            ratios = [each / files for each, files in zip(seconds, first, strict=False)]
            speed = f"{self._reports / median(seconds) / 1e6:6.2f} M reports/s"
            print(f"{what:<36} {_spread(seconds, 6)} s  {speed}  {_spread(ratios, 5)}x")


def _spread(values: Sequence[float], width: int) -> str:
    middle = f"{median(values):{width}.2f}"
    ends = f" ({min(values):.2f}-{max(values):.2f})" if len(values) > 1 else ""
    return f"{middle}{ends:<16}"


def throughput(reports: int, repeats: int) -> None:
    """Print the table."""
    from ldpbeam.engine.sources.subscriber import Subscriber
    from ldpbeam.pipelines.run import run
    from ldpbeam.pipelines.submit import submit

    asked = _long_epochs()
    rng = np.random.Generator(np.random.Philox(1))
    sent = [(e, m) for e in range(_EPOCHS) for m in messages(asked, e, reports // _EPOCHS, rng)]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        inputs = _written(scratch / "in", sent)
        base = RunConfig.parsed((asked,), files=inputs, output="", land_every=0.5, watermark_delay=1.0)
        _warm(base, scratch)
        race = Race(scratch, reports)
        live = base.changed(files=(), subscription="memory")
        held = [Held(m, asked.epochs.start(e) * 1_000_000) for e, m in sent]
        streaming = base.changed(beam_args=("--streaming",), shard_bits=1)

        # In turn, since the machine may be half as fast a minute later.
        for _ in range(repeats):
            race.take("files, FnApiRunner", lambda out: run(base.changed(output=out)))
            race.take(
                "local engine, from memory",
                lambda out: drain(live.changed(output=out), FromMemory(list(held)), len(sent)),
            )
            race.take("clusters' graph, FnApiRunner", lambda out: submit(streaming.changed(output=out)))
        with emulator(scratch) as service:
            os.environ["PUBSUB_EMULATOR_HOST"] = service.host
            topic, subscription = _channel()
            _publish(topic, sent, asked)
            asked_of = live.changed(subscription=subscription)
            with Subscriber(subscription, "received", max_messages=20_000, max_bytes=1 << 28) as source:
                race.take(
                    "local engine, Pub/Sub emulator",
                    lambda out: drain(asked_of.changed(output=out), source, len(sent)),
                )
        print(f"{reports:,} reports in {len(sent):,} batches, {_EPOCHS} epochs; {repeats} rounds")
        race.show()


def flink(reports: int, repeats: int, jar: str) -> None:
    """Print seconds of whole jobs, each in a process of its own, and what a report costs beyond the start."""
    from ldpbeam.pipelines.run import run

    rng = np.random.Generator(np.random.Philox(1))
    counts = (reports // 100, reports)
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    with tempfile.TemporaryDirectory() as name:
        inputs, expected = {}, {}
        for count in counts:
            asked = _long_epochs()
            sent = [(e, m) for e in range(_EPOCHS) for m in messages(asked, e, count // _EPOCHS, rng)]
            inputs[count] = _written(Path(name, str(count)), sent)
            del sent
            output = Path(name, f"{count}-files")
            run(RunConfig.parsed((asked,), files=inputs[count], output=str(output)))
            expected[count] = newest(output)
        os.sync()
        for repeat in range(repeats):
            for count in counts:
                output = Path(name, f"{count}-{repeat}")
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
                    job = child.submit(_flink_job, inputs[count], str(output), jar)
                    seconds[count].append(job.result())
                assert newest(output) == expected[count], count
    for count, each in seconds.items():
        print(f"{count:>12,} reports {_spread(each, 6)} s, job and all; {repeats} rounds")
    few, many = seconds.values()
    beyond = [(b - a) / (counts[1] - counts[0]) * 1e6 for a, b in zip(few, many, strict=True)]
    print(f"beyond the start     {_spread(beyond, 6)} us per report")


def _flink_job(inputs: tuple[str, ...], output: str, jar: str) -> float:
    """Seconds of a job on an embedded cluster with two slots."""
    from ldpbeam.pipelines.submit import submit

    options = ("--streaming", "--flink_version=1.19", f"--flink_job_server_jar={jar}", "--parallelism=2")
    config = RunConfig.parsed(
        (_long_epochs(),), files=inputs, output=output, land_every=0.5, watermark_delay=1.0
    )
    job = config.changed(runner="FlinkRunner", beam_args=options, shard_bits=CLUSTER_SHARD_BITS)
    started = time.perf_counter()
    submit(job)
    return time.perf_counter() - started


def _long_epochs() -> Collection:
    return collection("6h", "2026-01-01T00:00:00Z", "52w")


def _written(folder: Path, sent: Sequence[tuple[int, bytes]]) -> tuple[str, ...]:
    """A file for each epoch, of messages; their paths."""
    folder.mkdir()
    for epoch in range(_EPOCHS):
        content = b"".join(codec.framed(m) for e, m in sent if e == epoch)
        (folder / f"{epoch}.pb").write_bytes(content)
    return tuple(str(p) for p in sorted(folder.iterdir()))


def _warm(base: RunConfig, scratch: Path) -> None:
    """Imports and compilation belong to no row."""
    from ldpbeam.pipelines.run import run

    run(base.changed(files=base.input.files[:1], output=str(scratch / "warm")))


def _channel() -> tuple[str, str]:
    from google.cloud import pubsub_v1

    topic, subscription = "projects/ldp-bench/topics/reports", "projects/ldp-bench/subscriptions/reports"
    with pubsub_v1.SubscriberClient() as subscriber:
        pubsub_v1.PublisherClient().create_topic(name=topic)
        subscriber.create_subscription(name=subscription, topic=topic)
    return topic, subscription


def _publish(topic: str, sent: list[tuple[int, bytes]], asked: Collection) -> None:
    from google.cloud import pubsub_v1

    publisher = pubsub_v1.PublisherClient()
    futures = [publisher.publish(topic, m, received=str(asked.epochs.start(e) * 1000)) for e, m in sent]
    for future in futures:
        future.result(timeout=120)


def _resident() -> float:
    """MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# --- months


class Silence(MessageSource[Held]):
    """A source that has nothing, and a clock that moves when it is asked."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.waiting: list[Held] = []

    def __call__(self) -> float:
        return self.now

    def pull(self, limit_messages: int, limit_bytes: int, timeout_seconds: float) -> list[Held]:
        some, self.waiting = self.waiting[:limit_messages], self.waiting[limit_messages:]
        if not some:
            self.now += timeout_seconds
        return some

    def acknowledge(self, some: object) -> None:
        return None


def _months_of(name: str) -> Collection:
    return parse_collection(
        f"name: {name}\ndomain: {{size: 8}}\nprotocol: grr\nepsilon: 1.0\n"
        "epoch: {length: 1m, origin: 2026-01-01T00:00:00Z, count: 1000000}\nallowed_lateness: 1m\n"
    )


def _reports(asked: Collection, epoch: int, ids: Any, payloads: bytes) -> bytes:
    return report_pb2.ReportBatch(
        digest=asked.digest, epoch=epoch, count=len(ids), report_ids=ids, payloads=payloads
    ).SerializeToString()


def unforced() -> Any:
    """Lets SQLite force nothing to disk, for a block."""
    from unittest import mock

    from ldpbeam.durable import store

    settings = tuple(one.replace("EXTRA", "OFF") for one in store._SETTINGS)
    return mock.patch.object(store, "_SETTINGS", settings)


def _start(config: RunConfig, landing: Landing, clock: Silence, row: list[str]) -> Any:
    """A restarted engine; what that took and holds goes into the row."""
    import gc

    from ldpbeam.engine.engine import LocalStream

    gc.collect()
    begin = time.process_time()
    engine = LocalStream(config, clock, landing, clock, clock)
    row.append(f"{time.process_time() - begin:8.3f}")
    row.append(f"{engine.status.segments:6}")
    row.append(f"{_resident():7.0f}")
    return engine


def _sizes(output: Path) -> list[str]:
    folders = [output / "landing", output / "accounting"]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [
        f"{sum(path.parent == folders[0] for path in files):7}",
        f"{sum(folders[1] in path.parents for path in files):7}",
        f"{(output / 'run.json').stat().st_size / 1000:7.0f}",
    ]


def months(segments: int, epochs: int) -> None:
    """Print what a restart and a close cost as a stream grows old."""
    from unittest import mock

    from ldpbeam.engine import engine as local

    both = (_months_of("first"), _months_of("second"))
    per_epoch = max(1, segments // epochs)
    rng = np.random.Generator(np.random.Philox(3))
    print(f"{segments:,} segments, {epochs:,} epochs of 2 collections; {per_epoch} segments per epoch")
    print(" epochs  restart s   rows  MiB   landing  accounts  run.json kB  ms per close")
    rows: list[tuple[float, float, float]] = []
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch("os.fsync", lambda descriptor: None),
        unforced(),
        Landing(f"{name}/out").locked() as landing,
    ):
        output = Path(name) / "out"
        config = RunConfig.parsed(
            both,
            output=str(output),
            subscription="memory",
            land_every=1.0,
            watermark_delay=1.0,
            keep_landed=6 * 3600,
        )
        start = both[0].epochs.origin
        clock = Silence(float(start))
        engine = local.LocalStream(config, clock, landing, clock, clock)
        for part in range(10):
            begin, closes = time.process_time(), 2 * (epochs // 10)
            for epoch in range(part * epochs // 10, (part + 1) * epochs // 10):
                for piece in range(per_epoch):
                    clock.now = max(clock.now, start + 60 * epoch + 60 * piece / per_epoch)
                    for asked in both:
                        ids = rng.integers(0, 1 << 64, 8, np.uint64).tolist()
                        data = _reports(asked, epoch, ids, bytes(range(8)))
                        clock.waiting.append(Held(data, round(clock.now * 1e6)))
                    engine.step()
            spent = (time.process_time() - begin) / closes * 1000
            engine.stop()
            row: list[str] = []
            engine = _start(config, landing, clock, row)
            row = [f"{(part + 1) * epochs // 10:7}", *row, *_sizes(output), f"{spent:8.2f}"]
            print("  ".join(row), flush=True)
            rows.append((float(row[1]), float(row[3]), spent))
        clock.now += 600
        for _ in range(5):
            engine.step()
        engine.stop()
        assert engine.record is not None
        total = engine.record.accounting.total
        expected = 16 * per_epoch * epochs
        assert total.read == total.counted == expected, total
    _flat("restart", [row[0] for row in rows], 3.0)
    _flat("memory", [row[1] for row in rows], 1.5)
    _flat("close", [row[2] for row in rows], 2.0)


def _flat(what: str, values: list[float], limit: float) -> None:
    """The last moments against the second (in the first nothing was warm)."""
    ratio = max(values[-2:]) / max(values[1], 1e-3)
    print(f"{what}: {ratio:.2f} times as much at the end as after a fifth (limit {limit})")
    if ratio > limit:
        sys.exit(1)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    speed = commands.add_parser("throughput")
    speed.add_argument("--reports", type=int, default=4_000_000)
    speed.add_argument("--repeats", type=int, default=5, help="rounds of the ways that need no service")
    cluster = commands.add_parser("flink")
    cluster.add_argument("--flink", metavar="JOB_SERVER_JAR", required=True)
    cluster.add_argument("--reports", type=int, default=40_000_000)
    cluster.add_argument("--repeats", type=int, default=3)
    old = commands.add_parser("months")
    old.add_argument("--segments", type=int, default=100_000)
    old.add_argument("--epochs", type=int, default=10_000)
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    if given.command == "throughput":
        throughput(given.reports, given.repeats)
    elif given.command == "flink":
        flink(given.reports, given.repeats, given.flink)
    else:
        months(given.segments, given.epochs)


if __name__ == "__main__":
    main()
