"""A warm process that forks collectors and engines, so that a kill costs no start of an interpreter.

Each line of its standard input names what to fork, ``collect`` or ``watch``. The fork says on standard output
who it is, and a collector where it listens.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from ldpbeam.collection.file import load_collection
from ldpbeam.collector import server
from ldpbeam.collector.checks import judge
from ldpbeam.collector.server import Limits
from ldpbeam.collector.service import serve
from ldpbeam.collector.store import FileStore
from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.sources.watched_folder import WatchedFolder
from ldpbeam.engine.storage.landing import Landing
from ldpbeam.job.config import RunConfig

FOLDER, AGREED = Path(sys.argv[1]), load_collection(Path(sys.argv[2]))


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
        settle=1.0,
    )
    landing = Landing(config.outputs.output)
    with landing.locked():
        engine = LocalStream(config, WatchedFolder(config.input.watch), landing=landing)
        tell()
        while True:
            engine.step()


def main() -> None:
    judge([b"\0"], {AGREED.digest: AGREED})
    assert threading.active_count() == 1, threading.enumerate()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what was killed is gone at once
    tell()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            {"collect": collect, "watch": watch}[line.strip()]()
            os._exit(0)
        tell(forked=child)


if __name__ == "__main__":
    main()
