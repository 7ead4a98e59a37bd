"""A pool of Python workers for all TaskManagers of this machine.

Each job counts its workers on each TaskManager from ``1-1``, and Beam's pool stops the newest worker of a
name. Where two TaskManagers share a pool, one of them stops the other's worker, and the job starts again.
This pool stops no worker when it is asked to: a worker ends when its TaskManager closes the connection.
"""

from __future__ import annotations

import sys
from typing import Any

from apache_beam.portability.api.org.apache.beam.model.fn_execution.v1 import beam_fn_api_pb2
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer


class SharedPool(BeamFnExternalWorkerPoolServicer):
    """Beam's pool, whose workers end by themselves."""

    def StopWorker(self, stop_worker_request: Any, unused_context: Any) -> Any:  # noqa: N802  # its name in Beam
        """Stop nothing: another TaskManager's worker may have this name."""
        return beam_fn_api_pb2.StopWorkerResponse()


if __name__ == "__main__":
    _, server = SharedPool.start(use_process=True, port=int(sys.argv[1]))
    server.wait_for_termination()
