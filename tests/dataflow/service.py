"""A Dataflow service on this machine that takes jobs and forgets them, and what it was sent.

With an endpoint on localhost, Beam speaks REST to it, and stages into a local folder.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from apache_beam.portability.api import beam_runner_api_pb2 as api
from apache_beam.portability.api import standard_window_fns_pb2 as window_fns

OPTIONS = ["--project", "my-project", "--region", "europe-west1", "--job_name", "minutes"]
"""What every job needs."""


@dataclass
class Service:
    """A service whose jobs go through ``states``; the last one stays."""

    states: Sequence[str] = ("JOB_STATE_DONE",)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    asked: int = 0
    port: int = 0

    def options(self, folder: Path) -> list[str]:
        """Options that send a job here, and its files into ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        endpoint = f"--dataflow_endpoint=http://localhost:{self.port}"
        places = [f"--staging_location={folder}", f"--temp_location={folder}"]
        return [*OPTIONS, endpoint, "--no_auth", *places]

    def answer(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        """What the service says."""
        self.calls.append(f"{method} {path}")
        if method == "POST":
            job = json.loads(body)
            self.jobs.append(job)
            return {**job, "id": "job-1", "currentState": self.states[0]}
        if path.endswith("/jobs"):
            return {"jobs": [{"id": "job-0", "name": "minutes", "currentState": "JOB_STATE_RUNNING"}]}
        if path.endswith("/messages"):
            said = {"id": "1", "time": "2026-01-01T00:00:00Z", "messageText": "Traceback: Cup is empty"}
            failed = self.states[-1] == "JOB_STATE_FAILED"
            return {"jobMessages": [{**said, "messageImportance": "JOB_MESSAGE_ERROR"}]} if failed else {}
        self.asked += 1
        state = self.states[min(self.asked, len(self.states) - 1)]
        return {**self.jobs[-1], "id": "job-1", "currentState": state}


@contextmanager
def serving(*states: str) -> Iterator[Service]:
    """A service on a free port."""
    service = Service(states or ("JOB_STATE_DONE",))

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = urlsplit(self.path).path
            content = json.dumps(service.answer(self.command, path, body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = respond  # noqa: N815 - names of the base class

        def log_message(self, *arguments: object) -> None:
            """Quietly."""

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    service.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# --- what a graph holds


@dataclass(frozen=True)
class Window:
    """A window function."""

    urn: str
    payload: bytes

    @property
    def size(self) -> int:
        """Seconds, of fixed windows."""
        return int(window_fns.FixedWindowsPayload.FromString(self.payload).size.seconds)


@dataclass(frozen=True)
class Graph:
    """A portable pipeline, read."""

    proto: api.Pipeline

    @classmethod
    def staged(cls, folder: Path) -> Graph:
        """The one that was staged into a folder."""
        return cls(api.Pipeline.FromString((folder / "pipeline.pb").read_bytes()))

    @property
    def labels(self) -> set[str]:
        """Full labels."""
        return {t.unique_name for t in self.proto.components.transforms.values()}

    def urns(self, *, leaves: bool = True) -> dict[str, str]:
        """What each leaf, or each transform, is by its label."""
        return {
            t.unique_name: t.spec.urn
            for t in self.proto.components.transforms.values()
            if t.spec.urn and not (leaves and t.subtransforms)
        }

    def window_of(self, label: str) -> Window:
        """The windows that the output of a step is in."""
        parts = self.proto.components
        (step,) = (t for t in parts.transforms.values() if t.unique_name == label)
        (output,) = step.outputs.values()
        strategy = parts.windowing_strategies[parts.pcollections[output].windowing_strategy_id]
        return Window(strategy.window_fn.urn, strategy.window_fn.payload)

    def payload(self, label: str, kind: Any) -> Any:
        """The payload of the transform with a label."""
        (found,) = (t for t in self.proto.components.transforms.values() if t.unique_name == label)
        return kind.FromString(found.spec.payload)

    def stateful(self) -> dict[str, tuple[set[str], dict[str, int]]]:
        """Names of states, and time domains of timers, by label."""
        found = {}
        for label, urn in self.urns().items():
            if urn == "beam:transform:pardo:v1":
                payload = self.payload(label, api.ParDoPayload)
                timers = {n.removeprefix("ts-"): t.time_domain for n, t in payload.timer_family_specs.items()}
                if payload.state_specs or timers:
                    found[label] = set(payload.state_specs), timers
        return found

    def key_coder(self, label: str) -> list[str]:
        """URNs of the coder of a step's keys and of its parts."""
        parts = self.proto.components
        (step,) = (t for t in parts.transforms.values() if t.unique_name == label)
        (source,) = step.inputs.values()
        pair = parts.coders[parts.pcollections[source].coder_id]
        assert pair.spec.urn == "beam:coder:kv:v1"
        found, rest = [], [pair.component_coder_ids[0]]
        while rest:
            coder = parts.coders[rest.pop(0)]
            found.append(coder.spec.urn)
            rest = [*coder.component_coder_ids, *rest]
        return found

    def images(self) -> set[str]:
        """Containers that steps run in."""
        environments = self.proto.components.environments.values()
        return {api.DockerPayload.FromString(e.payload).container_image for e in environments}

    def artifacts(self) -> dict[str, tuple[Path, str]]:
        """Staged file and its SHA-256, by the name that a worker sees."""
        found = {}
        for environment in self.proto.components.environments.values():
            for item in environment.dependencies:
                name = api.ArtifactStagingToRolePayload.FromString(item.role_payload).staged_name
                file = api.ArtifactFilePayload.FromString(item.type_payload)
                found[name] = Path(file.path), file.sha256
        return found
