"""Workers of the local runner: processes that end with the one that started them, threads that lose nothing.

Beam's own processes go on for as long as they compute when their parent is killed, and hold files and memory.
These are told by the kernel (Linux), or look themselves once a second.

Beam's own threads send output once a second from a thread of its own, which clears what is written meanwhile
(decision 21). These send it when a buffer is full or a bundle ends.

    python -m ldpbeam.pipelines.workers PARENT      is what Beam's command line for a worker is replaced by
"""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import sys
import threading
import time

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl.h
_EVERY = 1.0


def install() -> None:
    """Have the local runner start worker processes through this module, and threads without a clock."""
    from apache_beam.portability import python_urns
    from apache_beam.runners.portability.fn_api_runner import worker_handlers
    from apache_beam.runners.portability.fn_api_runner.worker_handlers import (
        SubprocessSdkWorkerHandler,
        WorkerHandler,
    )

    class EndsWithItsParent(SubprocessSdkWorkerHandler):
        """Beam's handler of a worker process, with our command line."""

        def __init__(self, worker_command_line: bytes, *others: object) -> None:
            # With exec there is no shell in between, which nobody would kill.
            ours = f"exec {shlex.quote(sys.executable)} -m ldpbeam.pipelines.workers {os.getpid()}"
            super().__init__(ours.encode(), *others)

    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)(EndsWithItsParent)


def end_with(parent: int) -> None:
    """End this process by SIGKILL as soon as the one with this id, which has started it, has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGKILL)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    # Ctrl-C in a terminal reaches every process; whoever started us ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)
