"""A standalone Flink cluster of real processes, and a pool of Python workers, to be killed at will."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from tests.conftest import REPOSITORY
from tests.flink.fetch import flink, job_server
from tests.waiting import PATIENCE

Found = TypeVar("Found")
MANAGERS = 2

JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
"""Short-lived processes: the optimising compiler would take more time than its code saves."""

# Flink reflects into the JDK; the list is the one of Flink's own default configuration.
OPENED = (
    "lang net io nio lang.reflect text time util util.concurrent util.concurrent.atomic util.concurrent.locks"
)
OPEN = [
    *(
        f"--add-exports={name}=ALL-UNNAMED"
        for name in ("java.base/sun.net.util", "java.rmi/sun.rmi.registry")
    ),
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED.split()),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
]
# Flink's scripts work these out; without them a TaskManager refuses to start.
MEMORY = {
    "cpu.cores": "2.0",
    "memory.framework.heap.size": "128m",
    "memory.framework.off-heap.size": "128m",
    "memory.task.heap.size": "384m",
    "memory.task.off-heap.size": "256m",
    "memory.managed.size": "64m",
    "memory.network.min": "64m",
    "memory.network.max": "64m",
    "memory.jvm-metaspace.size": "256m",
    "memory.jvm-overhead.min": "128m",
    "memory.jvm-overhead.max": "128m",
}


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: str, find: Callable[[], Found | None], seconds: float = PATIENCE) -> Found:
    """What `find` gives as soon as that is something."""
    end, pause = time.monotonic() + seconds, 0.1
    while time.monotonic() < end:
        if found := find():
            return found
        time.sleep(pause)
        pause = min(1.0, 1.5 * pause)  # each question costs time; what takes long is asked less often
    raise TimeoutError(f"{what}: not within {seconds:.0f} s")


class Process:
    """A child in a group of its own, its output in a file; killing it leaves no descendant."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as out:
            self._child = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def ended(self) -> bool:
        """Whether the child has ended, as it should."""
        if self._child.poll():
            raise RuntimeError(f"{self.log.name}: the process failed: {self.log.read_text()[-2000:]}")
        return not self.alive

    def await_port(self, port: int) -> None:
        """Wait until the child listens."""

        def listens() -> bool:
            assert not self.ended(), f"{self.log.name}: the process ended: {self.log.read_text()[-2000:]}"
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        try:
            until(self.log.name, listens)
        except BaseException:
            self.kill()
            raise

    def close(self) -> None:
        """SIGKILL to the whole group, as often as one likes."""
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    kill = close


class Worker(Process):
    """A pool that starts a Python process for every TaskManager that asks for one."""

    def __init__(self, log: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._command = [sys.executable, "-m", "tests.flink.pool", str(self.port)]
        # Two of glibc's arenas, as docs/flink.md advises: with one for each of a worker's threads, freed
        # memory stays spread over all of them and the process grows for hours.
        self._environment = {"PATH": path, "PYTHONPATH": str(REPOSITORY), "MALLOC_ARENA_MAX": "2"}
        super().__init__(self._command, log, self._environment)
        self.await_port(self.port)

    def restart(self) -> None:
        """Start the killed pool again where it was."""
        super().__init__(self._command, self.log, self._environment)
        self.await_port(self.port)


class JobServerProcess(Process):
    """Beam's job server for one cluster."""

    def __init__(self, log: Path, master: str) -> None:
        port = free_port()
        self.endpoint = f"localhost:{port}"
        command = [*JAVA, "-Xmx512m", "-jar", str(job_server())]
        command += ["--flink-master", f"http://{master}", "--job-port", str(port)]
        command += ["--artifact-port", "0", "--expansion-port", "-1"]
        command += ["--artifacts-dir", str(log.parent / "artifacts")]
        super().__init__(command, log)
        self.await_port(port)


class Cluster:
    """One JobManager and some TaskManagers on this machine; a context manager that leaves nothing behind."""

    def __init__(self, folder: Path, java: Sequence[str] = ()) -> None:
        """Nothing is started yet; `java` are options of TaskManagers."""
        self.folder = folder
        self.rest = free_port()
        self.managers: dict[str, Process] = {}
        self._java_options = list(java)
        self._open = ExitStack()
        self._settings = {
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": str(free_port()),
            "jobmanager.bind-host": "127.0.0.1",
            "taskmanager.host": "127.0.0.1",
            "taskmanager.bind-host": "127.0.0.1",
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": str(self.rest),
            "taskmanager.numberOfTaskSlots": "2",
            "cluster.evenly-spread-out-slots": "true",
            "state.checkpoints.dir": (folder / "checkpoints").as_uri(),
            "io.tmp.dirs": str(folder / "tmp"),
            # A batch has a dozen shuffles side by side, and each takes 512 of the 2,048 buffers by default.
            "taskmanager.network.sort-shuffle.min-buffers": "64",
            # A killed TaskManager is to be noticed, and the job to start again, within seconds: two
            # heartbeats that cannot be delivered say so. One that is merely late does not: on a machine
            # that stands still for seconds, all are.
            "heartbeat.interval": "1000",
            "heartbeat.rpc-failure-threshold": "2",
            "heartbeat.timeout": "120000",
            "pekko.startup-timeout": f"{PATIENCE:.0f} s",
            "pekko.ask.timeout": "300 s",
            "pekko.tcp.timeout": "120 s",
            "taskmanager.registration.timeout": f"{PATIENCE:.0f} s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "100",
            # By then Flink knows that a killed TaskManager is gone, and does not start the job on it.
            "restart-strategy.fixed-delay.delay": "3 s",
        }

    @property
    def address(self) -> str:
        """What `--flink_master` wants."""
        return f"127.0.0.1:{self.rest}"

    def __enter__(self) -> Self:
        """Start everything and wait until all slots are offered."""
        with self._open as undo:
            (self.folder / "tmp").mkdir(parents=True)
            lines = (f"{name}: {value}\n" for name, value in self._settings.items())
            (self.folder / "config.yaml").write_text("".join(lines))
            manager = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
            self._job_manager = self._java("jobmanager", manager, "512m", [])
            for _ in range(MANAGERS):
                self.add_manager()
            until("the cluster", self._complete)
            self._open = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _complete(self) -> bool:
        assert not any(manager.ended() for manager in self.managers.values())
        return len(self.get("/taskmanagers")["taskmanagers"]) >= MANAGERS

    def _java(
        self, name: str, main: str, heap: str, more: Sequence[str], options: Sequence[str] = ()
    ) -> Process:
        command = [*JAVA, f"-Xmx{heap}", "-XX:MaxDirectMemorySize=512m", *options, *OPEN]
        command += ["-cp", flink(), main, "--configDir", str(self.folder), *more]
        process = Process(command, self.folder / f"{name}.log")
        self._open.callback(process.kill)
        return process

    def add_manager(self) -> Process:
        """One more TaskManager; it registers when it is ready."""
        name = f"taskmanager-{len(self.managers) + 1}"
        main = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        settings = {**MEMORY, "resource-id": name}
        more = [part for key, value in settings.items() for part in ("-D", f"taskmanager.{key}={value}")]
        process = self._java(name, main, "512m", more, self._java_options)
        self.managers[name] = process
        return process

    def kill_manager(self, job: str) -> None:
        """Kill a TaskManager that runs tasks of the job."""
        vertices = (vertex["id"] for vertex in self.get(f"/jobs/{job}")["vertices"])
        busy = {
            task["taskmanager-id"]
            for vertex in vertices
            for task in self.get(f"/jobs/{job}/vertices/{vertex}")["subtasks"]
        }
        name = min(busy & {name for name, process in self.managers.items() if process.alive})
        self.managers[name].kill()

    def get(self, path: str) -> Any:
        """An answer of the JobManager's REST interface."""

        def ask() -> list[Any] | None:
            self._job_manager.ended()
            # While a TaskManager goes, what was asked about it can fail once.
            with (
                suppress(OSError),
                urllib.request.urlopen(f"http://{self.address}{path}", timeout=60) as answer,
            ):
                return [json.loads(answer.read())]
            return None

        return until(f"an answer to {path}", ask)[0]

    def job(self, name: str) -> str:
        """The id of the job of that name, once there is one."""

        def find() -> str | None:
            jobs = self.get("/jobs/overview")["jobs"]
            return next((str(job["jid"]) for job in jobs if job["name"].startswith(name)), None)

        return until(f"job {name}", find)

    def state(self, job: str) -> str:
        """RUNNING, RESTARTING, FINISHED and so on."""
        return str(self.get(f"/jobs/{job}")["state"])

    def cancel(self, job: str) -> None:
        """End a job that does not end by itself."""
        url = f"http://{self.address}/jobs/{job}?mode=cancel"
        with urllib.request.urlopen(urllib.request.Request(url, method="PATCH"), timeout=60):
            pass
        until(f"the end of job {job}", lambda: self.state(job) == "CANCELED" or None)

    def checkpoints(self, job: str) -> int:
        """How many checkpoints of the job are complete."""
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["completed"])

    def goes_on(self, job: str, checkpoints: int) -> None:
        """Wait until so many checkpoints are complete from now on."""
        goal = self.checkpoints(job) + checkpoints
        until(f"{goal} checkpoints", lambda: self.checkpoints(job) >= goal)

    def replace_manager(self, job: str) -> None:
        """Kill a TaskManager, add one, and wait until the job has started again."""
        before = self.restarts(job)
        self.kill_manager(job)
        self.add_manager()
        until("a restart", lambda: self.restarts(job) > before)

    def restarts(self, job: str) -> int:
        """How often the job was started again from a checkpoint."""
        return int(self.get(f"/jobs/{job}/checkpoints")["counts"]["restored"])

    def live_counters(self, job: str) -> dict[str, int]:
        """Counters of a stream, since its last restart, as the tasks of the page show them."""
        found: Counter[str] = Counter()
        for vertex in self.get(f"/jobs/{job}")["vertices"]:
            place = f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics"
            names = [one["id"] for one in self.get(place)]
            ours = [name for name in names if re.search(r"[.]ldpbeam_(reports|results)(?!_per)", name)]
            for one in self.get(f"{place}?get={quote(','.join(ours))}&agg=sum") if ours else []:
                found[one["id"].rpartition(".ldpbeam_")[2]] += int(one["sum"])
        return dict(found)

    def problems(self, job: str) -> str:
        """Why the job failed or restarted, newest first."""
        history = self.get(f"/jobs/{job}/exceptions?maxExceptions=5")["exceptionHistory"]["entries"]
        return "\n".join(entry["stacktrace"][:500] for entry in history)
