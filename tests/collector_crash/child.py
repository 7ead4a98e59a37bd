"""A warm process that forks collectors and engines, so that a kill costs no start of an interpreter.

Each line of its standard input says what to fork: ``collect``, ``watch``, or ``report PORT EPOCH`` for
devices that send to a collector. A fork says on standard output who it is; a collector where it listens;
devices each report that they made, and when they are done.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
from pathlib import Path
from unittest import mock

from ldpbeam.admission import ReportColumns
from ldpbeam.client.device import Device
from ldpbeam.client.sender import Sender
from ldpbeam.collection.file import load_collection
from ldpbeam.collector import server
from ldpbeam.collector.checks import judge
from ldpbeam.collector.server import Limits
from ldpbeam.collector.service import serve
from ldpbeam.collector.store import FileStore
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.sources.watched_folder import WatchedFolder
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.errors import DeviceError
from ldpbeam.job.config import RunConfig

FOLDER, AGREED = Path(sys.argv[1]), load_collection(Path(sys.argv[2]))
DEVICES = 20
STATES = "devices"


def tell(**words: object) -> None:
    """In one write, which no other process's can come into."""
    os.write(1, json.dumps({"pid": os.getpid(), **words}).encode() + b"\n")


def collect() -> None:
    # Files are finished all the time, so that kills fall into that as well.
    server.PUBLISH_SECONDS = 0.02
    store = FileStore(FOLDER / "reports", 0.05, 3000)
    serve(store, [AGREED], ("127.0.0.1", 0), Limits(), lambda host, port: tell(port=port))


def watch() -> None:
    config = RunConfig.parsed(
        (AGREED,),
        output=str(FOLDER / "out"),
        watch=str(FOLDER / "reports"),
        land_every=0.02,
        watermark_delay=1.0,
    )
    with Landing(config.outputs.output).locked() as landing:
        engine = LocalStream(config, WatchedFolder(config.input.watch), landing)
        tell()
        while True:
            engine.step()


def report(port: str, first: str) -> None:
    """Each device reports in each epoch from ``first`` on, and sends what waits until nothing does."""
    url = f"http://127.0.0.1:{port}/v1/reports"
    tell()
    for epoch in range(int(first), AGREED.epochs.count):
        for number in range(DEVICES):
            device = opened(number, epoch)
            try:
                message = device.report(number % 16, epoch)
            except DeviceError as error:
                # A life that was killed had come further.
                if error.code != "E-DEVICE-EPOCH":
                    raise
            else:
                assert message is not None
                tell(device=number, epoch=epoch, message=message.hex())
            Sender(device.outbox, url).send_due()
    waiting = math.inf
    while waiting:
        devices = [opened(number, AGREED.epochs.count - 1) for number in range(DEVICES)]
        for device in devices:
            Sender(device.outbox, url).send_due()
        waiting = sum(len(device.outbox) for device in devices)
    tell(done=[device.spent().epsilon for device in devices])


def opened(number: int, epoch: int) -> Device:
    """A device whose clock is in the epoch; every second one keeps its permanent response."""
    return Device.open(
        AGREED,
        FOLDER / STATES / str(number),
        memo="stored" if number % 2 else "derived",
        clock=lambda: AGREED.epochs.start(epoch) + 1.0,
    )


def plant(fault: str) -> None:
    """Make one of the three programs wrong, in a way that only a kill brings to light."""
    if fault == "a collector answers before it keeps":
        keep, late = FileStore.commit, []

        def commit(store: FileStore, columns: list[ReportColumns]) -> None:
            late.append(columns)
            if len(late) > 1:
                keep(store, late.pop(0))

        mock.patch.object(FileStore, "commit", commit).start()
    elif fault == "a device begins anew":
        mock.patch.dict(globals(), STATES=f"devices-{os.getpid()}").start()
    elif fault == "an engine reads again":
        mock.patch.object(WatchedFolder, "resume", lambda source, taken: None).start()


def main() -> None:
    judge([b"\0"], {AGREED.digest: AGREED})
    assert threading.active_count() == 1, threading.enumerate()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what was killed is gone at once
    tell()
    for line in sys.stdin:
        name, *given = line.split()
        child = os.fork()
        if child == 0:
            plant(sys.argv[3])
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if name == "report":
                report(*given)
            else:
                {"collect": collect, "watch": watch}[name]()
            os._exit(0)
        tell(forked=child)


if __name__ == "__main__":
    main()
