"""An hour of a stream with half of its messages garbage: do the books balance, does memory stay flat?

    python benchmarks/soak.py local [--minutes 60] [--rate 5000]
    python benchmarks/soak.py flink [--minutes 60] [--rate 5000]

Every second message holds one report; every hundredth of these is sent twice. The others are garbage of
three kinds: bytes that are no message, reports of an unknown collection, and payloads of a wrong length.
Epochs last a minute and close a minute later, so state comes and goes all the time. ``local`` runs the local
engine on a server that speaks Pub/Sub's protocol (subscription.py says why), ``flink`` reads a Kafka topic
with a Flink cluster of two TaskManagers (Java and Maven, as for ``make flink``). Memory is that of the
engine's process, or of the Python workers and of the TaskManagers; its slope is taken after the first ten
minutes (or the first third), and may be 1 MiB/min. A Java heap takes what it may before it looks for garbage,
so TaskManagers have theirs whole from the start, and what lives in it is measured beside it, after a full
collection each minute.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.collection.file import parse_collection
from ldpbeam.job.config import RunConfig
from ldpbeam.wire import report_pb2

_LENGTH = 60
_YAML = """
name: soak
domain: {{size: 11}}
protocol: grr
epsilon: 2.0
epoch: {{length: {length}s, origin: {origin}}}
allowed_lateness: 60s
"""
_TWICE = 100


def collection(origin: int) -> Collection:
    """What the reports belong to."""
    return parse_collection(_YAML.format(length=_LENGTH, origin=instant(origin)), "soak")


def messages(asked: Collection, first: int, count: int, epoch: int) -> Iterator[bytes]:
    """Messages from number ``first``: what each is follows from its number."""
    for number in range(first, first + count):
        kind, which = number % 2, number // 2
        payload, digest = bytes([which * which % 11]), asked.digest
        if kind:
            if which % 3 == 0:
                yield b"\xff" * (1 + which % 40)
                continue
            if which % 3 == 1:
                digest ^= 1
            else:
                payload += b"\0"
        report = report_pb2.Report(digest=digest, epoch=epoch, report_id=which, payload=payload)
        yield report.SerializeToString()


def send(
    origin: int,
    seconds: float,
    rate: int,
    out: Callable[[bytes], Any],
    flush: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """Send at a steady rate, and flush 20 times a second; gives how many of what were sent."""
    asked, sent, begin = collection(origin), Counter[str](), time.monotonic()
    number = 0
    while (passed := time.monotonic() - begin) < seconds:
        due = min(int(passed * rate) - number, rate)
        epoch = asked.epochs.index(time.time())
        for i, message in enumerate(messages(asked, number, due, epoch), number):
            out(message)
            if i % 2 == 0 and i // 2 % _TWICE == 0:
                out(message)
                sent["twice"] += 1
            sent["garbage" if i % 2 else "reports"] += 1
        number += due
        flush()
        time.sleep(0.05)
    return sent


def _serve(origin: int, seconds: float, rate: int, connection: Any) -> None:
    """A subscription in a process of its own; tells its address, then what it has sent."""
    from benchmarks.subscription import Subscription

    subscription = Subscription()
    connection.send(subscription.host)
    some: list[bytes] = []

    def flush() -> None:
        subscription.publish(some)
        some.clear()

    sent = send(origin, seconds, rate, some.append, flush)
    while subscription.left():
        time.sleep(1)
    connection.send({**sent, "again": subscription.again})
    time.sleep(3600)


def resident(process: int) -> float:
    """MiB of a process; 0 of one that has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def below(process: int) -> list[int]:
    """A process and its descendants."""
    found = [process]
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            found += below(int(child))
    return found


def live(processes: list[int]) -> float:
    """MiB that live in the heaps of Java processes, after a collection of all garbage."""
    found = 0
    for process in processes:
        for what in ("GC.run", "GC.heap_info"):
            done = subprocess.run(["jcmd", str(process), what], capture_output=True, text=True, check=False)  # noqa: S603, S607
        found += sum(map(int, re.findall(r"generation +total \d+K, used (\d+)K", done.stdout)))
    return found / 1024


class Memory:
    """Resident memory of something over time."""

    def __init__(self, what: str, measure: Callable[[], float], every: float = 0.0) -> None:
        self.what, self._measure, self._every = what, measure, every
        self._begin = time.monotonic()
        self.times: list[float] = []
        self.sizes: list[float] = []

    def look(self) -> None:
        """Measure once, if it is time."""
        if self.times and (time.monotonic() - self._begin) / 60 < self.times[-1] + self._every:
            return
        self.times.append((time.monotonic() - self._begin) / 60)
        self.sizes.append(self._measure())

    def slope(self, minutes: float) -> float:
        """MiB per minute, once it has warmed up."""
        times, sizes = np.array(self.times), np.array(self.sizes)
        warm = (times >= min(10.0, minutes / 3)) & (times <= minutes)
        return float(np.polyfit(times[warm], sizes[warm], 1)[0])


def watch(memories: list[Memory], over: threading.Event, every: float = 5.0) -> None:
    """Measure until it is over, and say so once a minute."""
    printed_at = 0.0
    while not over.wait(every):
        for memory in memories:
            memory.look()
        if time.monotonic() - printed_at >= 60:
            printed_at = time.monotonic()
            sizes = ", ".join(f"{m.what} {m.sizes[-1]:.0f} MiB" for m in memories)
            print(f"{memories[0].times[-1]:6.1f} min  {sizes}", flush=True)


def verdict(total: dict[str, Any], sent: dict[str, int], memories: list[Memory], minutes: float) -> bool:
    """Print what was found; gives whether it is what it has to be."""
    rejected = sum(total["rejected"].values())
    counts = {
        name: total[name] for name in ("read", "counted", "late", "duplicate", "pending") if name in total
    }
    print(f"sent {sent}\nbooks {counts}, rejected {total['rejected']}")
    balanced = total["read"] == total["counted"] + total["late"] + total["duplicate"] + rejected
    right = total["counted"] == sent["reports"] and total["late"] == 0
    more = total["duplicate"] >= sent["twice"] and rejected >= sent["garbage"]
    again = total["duplicate"] - sent["twice"] + rejected - sent["garbage"]
    print(f"balanced {balanced}, every report counted once {right}, delivered again by the broker {again}")
    slopes = {m.what: m.slope(minutes) for m in memories}
    for memory in memories:
        print(f"{memory.what}: {memory.sizes[-1]:.0f} MiB, {slopes[memory.what]:+.2f} MiB/min (limit 1)")
    return balanced and right and more and max(slopes.values()) <= 1


def local(minutes: float, rate: int) -> bool:
    """The local engine and a subscription."""
    from ldpbeam.engine.run import run_local

    subscription = "projects/soak-test/subscriptions/reports"
    with tempfile.TemporaryDirectory() as name:
        origin = int(time.time()) - _LENGTH
        config = RunConfig.parsed(
            (collection(origin),),
            output=f"{name}/out",
            max_error_fraction=0.9,
            subscription=subscription,
            late_every=10,
            keep_landed=120,
            stop_when_idle=90,
        )
        spawn = multiprocessing.get_context("spawn")
        listen, connection = spawn.Pipe(False)
        sender = spawn.Process(target=_serve, args=(origin, minutes * 60, rate, connection), daemon=True)
        sender.start()
        os.environ["PUBSUB_EMULATOR_HOST"] = listen.recv()
        memory, over = Memory("engine", lambda: resident(os.getpid())), threading.Event()
        watcher = threading.Thread(target=watch, args=([memory], over))
        watcher.start()
        try:
            found = run_local(config)
            sent = listen.recv()
        finally:
            over.set()
            watcher.join()
            sender.kill()
        assert found.stream is not None
        print(f"segments {found.stream.segments:,}")
        return verdict(found.accounting.total.as_record(), sent, [memory], minutes)


def flink(minutes: float, rate: int) -> bool:
    """A Flink cluster and Kafka."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from ldpbeam.pipelines.unbounded import collect_stream
    from ldpbeam.records.run_output import read_output
    from ldpbeam.transforms.sources.kafka import read_kafka

    parts = import_module("tests.flink.cluster")
    expansion, kafka = import_module("tests.flink.expansion"), import_module("tests.flink.kafka")
    on_cluster = import_module("tests.flink.test_flink").on_cluster

    whole = ["-Xms512m", "-XX:+AlwaysPreTouch"]
    with tempfile.TemporaryDirectory() as name, parts.Cluster(Path(name, "cluster"), java=whole) as cluster:
        folder = Path(name)
        server = parts.JobServerProcess(folder / "job-server.log", cluster.address)
        service = expansion.ExpansionService(folder / "expansion")
        broker, worker = kafka.Broker(folder / "kafka"), parts.Worker(folder / "pool.log")
        origin = int(time.time()) - _LENGTH
        config = RunConfig.parsed(
            (collection(origin),),
            output=f"{name}/out",
            max_error_fraction=0.9,
            shard_bits=1,
            late_every=10,
            job="soak",
        )
        pour = subprocess.Popen(broker.pour("soak"), stdin=subprocess.PIPE)  # noqa: S603 - our own command
        assert pour.stdin is not None
        pipe = pour.stdin
        try:
            options = ["--checkpointing_interval=10000", "--max_bundle_time_mills=500"]
            pipeline = beam.Pipeline(
                options=PipelineOptions(on_cluster(server.endpoint, worker, "soak", *options))
            )
            read = read_kafka(broker.address, ["soak"], service.address)
            chunks = pipeline | "Read" >> read
            _ = chunks | "Collect" >> collect_stream(config)
            pipeline.run()
            memories = [
                Memory("Python workers", lambda: sum(map(resident, below(worker.pid)))),
                Memory("TaskManagers", lambda: sum(resident(m.pid) for m in cluster.managers.values())),
                Memory("their live heap", lambda: live([m.pid for m in cluster.managers.values()]), 1.0),
            ]
            over = threading.Event()
            watcher = threading.Thread(target=watch, args=(memories, over))
            watcher.start()
            sent = send(origin, minutes * 60, rate, lambda m: pipe.write(base64.b64encode(m) + b"\n"))
            pipe.close()
            pour.wait()
            end, total = time.monotonic() + 600, {}
            while time.monotonic() < end:
                time.sleep(10)
                total = read_output(config.outputs.output).accounting.total.as_record()
                rejected = sum(total["rejected"].values())  # type: ignore[attr-defined]
                if total["counted"] == sent["reports"] and rejected >= sent["garbage"]:
                    break
            over.set()
            watcher.join()
            print(f"problems: {cluster.problems(cluster.job('soak'))[-500:]}")
            return verdict(total, dict(sent), memories, minutes)
        finally:
            for process in (worker, broker, service, server):
                process.kill()
            pour.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("engine", choices=["local", "flink"])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=5000)
    asked = parser.parse_args()
    right = {"local": local, "flink": flink}[asked.engine](asked.minutes, asked.rate)
    print(json.dumps({"engine": asked.engine, "minutes": asked.minutes, "right": right}))
    sys.exit(not right)


if __name__ == "__main__":
    main()
