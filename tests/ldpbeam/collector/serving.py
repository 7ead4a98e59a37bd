"""A collector in a thread of the test, with the real server and the real store, and a client for it."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ldpbeam.collection.epochs import Epochs
from ldpbeam.collector.gather import Gather
from ldpbeam.collector.server import Collector, Limits
from ldpbeam.collector.store import FileStore, Store
from ldpbeam.wire import codec, report_pb2
from tests.pipelines.running import collection
from tests.waiting import PATIENCE

ONE = collection("grr", 4, "one", epochs=Epochs(3600, 0, 100))
TWO = collection("l_osue", 40, "two", epochs=Epochs(3600, 0, 100))
TYPE = {"Content-Type": "application/x-protobuf"}


def report(name: int, epoch: int = 0, payload: bytes = b"\1", digest: int = ONE.digest) -> bytes:
    one = report_pb2.Report(digest=digest, epoch=epoch, report_id=name, payload=payload)
    return one.SerializeToString()


def batch(names: range, epoch: int = 0, **changes: Any) -> bytes:
    fields = {"count": len(names), "report_ids": names, "payloads": b"\1" * len(names), **changes}
    return report_pb2.ReportBatch(digest=ONE.digest, epoch=epoch, **fields).SerializeToString()


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Served:
    """A collector that runs."""

    host: str = ""
    port: int = 0
    gather: Any = None
    collector: Any = None
    loop: Any = None
    stopped: Any = None
    started: threading.Event = field(default_factory=threading.Event)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        line = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            line.request(method, path, body, dict(headers or {}))
            found = line.getresponse()
            return Answer(found.status, dict(found.headers), found.read())
        finally:
            line.close()

    def post(self, body: bytes, **headers: str) -> Answer:
        return self.ask(
            "POST", "/v1/reports", body, TYPE | {k.replace("_", "-"): v for k, v in headers.items()}
        )

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.stopped.set)

    def series(self, name: str) -> dict[str, float]:
        """The samples of a metric: name with labels, and number."""
        lines = self.ask("GET", "/metrics").body.decode().splitlines()
        some = (line.rpartition(" ") for line in lines if line.startswith(f"ldpbeam_collector_{name}"))
        return {labelled: float(number) for labelled, _, number in some}

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels."""
        wanted = [f'{label}="{is_}"' for label, is_ in labels.items()]
        some = self.series(name).items()
        return sum(number for labelled, number in some if all(one in labelled for one in wanted))


@contextmanager
def serving(store: Store, limits: Limits | None = None, host: str = "127.0.0.1") -> Iterator[Served]:
    """A collector for :data:`ONE` and :data:`TWO`, until the block ends or it is stopped."""
    served, failed = Served(), []
    known = {agreed.digest: agreed for agreed in (ONE, TWO)}
    chosen = limits or Limits()

    def listening(host: str, port: int) -> None:
        served.host, served.port = host, port
        served.started.set()

    async def run() -> None:
        served.loop, served.stopped = asyncio.get_running_loop(), asyncio.Event()
        served.gather = Gather(store, known)
        names = {agreed.digest_hex: agreed.name for agreed in known.values()}
        served.collector = Collector(served.gather, chosen, names)
        await served.collector.serve((host, 0), served.stopped, listening)

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failed.append(error)
            served.started.set()

    store.open()
    thread = threading.Thread(target=main)
    thread.start()
    served.started.wait(PATIENCE)
    try:
        yield served
    finally:
        with suppress(RuntimeError):
            served.stop()
        thread.join(PATIENCE)
        alive = thread.is_alive()
        store.close()
        assert not alive
        assert not failed, failed


@contextmanager
def folder(output: Path, limits: Limits | None = None, every: float = 3600.0) -> Iterator[Served]:
    with serving(FileStore(output, every, 1 << 24), limits) as served:
        yield served


def records(output: Path) -> list[tuple[int, int, int, int, bytes]]:
    """(second, digest, epoch, id, payload) of all reports in finished files, read by the protobuf library."""
    found = []
    for path in sorted(output.glob("*.pb")):
        frames = codec.frames(np.frombuffer(path.read_bytes(), np.uint8))
        assert frames.end == path.stat().st_size
        for at, length in zip(frames.offsets.tolist(), frames.lengths.tolist(), strict=True):
            many = report_pb2.ReportBatch.FromString(frames.buffer[at : at + length].tobytes())
            width = len(many.payloads) // many.count
            assert many.count == len(many.report_ids)
            found += [
                (many.arrival, many.digest, many.epoch, name, many.payloads[i * width : (i + 1) * width])
                for i, name in enumerate(many.report_ids)
            ]
    return found


def names(output: Path) -> list[int]:
    """Report ids in finished files."""
    return sorted(name for _, _, _, name, _ in records(output))
