"""Jobs on runners that are other programs: how they start, how they fail, and how they are left alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.durable.document import parse_document
from ldpbeam.errors import CollectionError, JobError, LdpError, UsageError
from ldpbeam.job.config import RunConfig
from ldpbeam.pipelines import beam_job as jobs
from ldpbeam.pipelines import submit as submitting
from ldpbeam.pipelines.beam_job import make_pipeline
from ldpbeam.pipelines.submit import submit
from tests.pipelines.running import collection, fleet, write
from tests.waiting import poll

pytestmark = [
    # Beam leaves channels of its job servers to the end of the interpreter.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SERVED = ("--environment_type=LOOPBACK", "--job_endpoint=embed")
"""Beam's own job server in Python, in this process; workers as well, but over gRPC."""


class Refuse(beam.DoFn):
    def __init__(self, ours: type[LdpError] | None) -> None:
        self._ours = ours

    def process(self, element: int) -> Iterator[int]:
        if self._ours is not None:
            raise self._ours("E-RUN-SINK", "the topic is gone", remedy="Make it.")
        if element:
            raise ValueError("no such thing as a flat map")
        yield element


def failing(ours: type[LdpError] | None = None) -> beam.Pipeline:
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=PortableRunner", *SERVED]))
    _ = pipeline | beam.Create([1], reshuffle=False) | beam.ParDo(Refuse(ours))
    return pipeline


def files(tmp_path: Path, *beam_args: str, **changes: Any) -> RunConfig:
    reports = write(tmp_path / "reports", collection(), fleet(collection(), 60, 2))
    inputs = tuple(str(path) for path in sorted(reports.iterdir()))
    fields = {"runner": "PortableRunner", "beam_args": beam_args, **changes}
    return RunConfig.parsed((collection(),), files=inputs, output=str(tmp_path / "out"), **fields)


@pytest.mark.thorough
def test_failed_job_is_one_line_with_the_cause() -> None:
    with pytest.raises(JobError) as caught:
        jobs.run_to_end(failing(), "PortableRunner")
    assert (caught.value.code, caught.value.exit_code) == ("E-RUN-JOB", 6)
    line = str(caught.value)
    assert "\n" not in line
    assert "FAILED on PortableRunner: ValueError: no such thing as a flat map" in line


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "exit_code"), [(LdpError, 6), (CollectionError, 3)])
def test_an_error_of_ours_keeps_its_code_across_the_job_server(kind: type[LdpError], exit_code: int) -> None:
    with pytest.raises(LdpError, match=r"the topic is gone\. Make it") as caught:
        jobs.run_to_end(failing(kind), "PortableRunner")
    assert (type(caught.value), caught.value.code) == (kind, "E-RUN-SINK")
    assert caught.value.exit_code == exit_code


@pytest.mark.thorough
def test_job_server_that_does_not_answer_is_a_usage_error() -> None:
    options = ["--runner=PortableRunner", "--job_endpoint=localhost:1", "--job_server_timeout=1"]
    pipeline = beam.Pipeline(options=PipelineOptions([*options, "--environment_type=LOOPBACK"]))
    _ = pipeline | beam.Create([1])
    with pytest.raises(UsageError, match="PortableRunner cannot be started: it does not answer") as caught:
        jobs.run_to_end(pipeline, "PortableRunner")
    assert caught.value.code == "E-USAGE-RUNNER"


class Overview(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        Overview.asked += 1
        assert self.path == "/jobs/overview"
        known = [{"name": "other", "jid": "f" * 32, "start-time": 9}]
        if Overview.asked >= 3:
            known += [{"name": "mine", "jid": c * 32, "start-time": s} for c, s in (("a", 5), ("b", 7))]
        body = json.dumps({"jobs": known}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def flink(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Overview.asked = 0
    monkeypatch.setattr(jobs, "_ASK_SECONDS", 0.01)
    with ThreadingHTTPServer(("127.0.0.1", 0), Overview) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def named(master: str) -> Any:
    return SimpleNamespace(options=PipelineOptions([f"--flink_master={master}", "--job_name=mine"]))


def test_a_job_is_left_once_the_cluster_has_it(flink: str) -> None:
    result = SimpleNamespace(state="RUNNING", _job_id="mine-1")
    assert jobs.handed_over(result, named(flink), "FlinkRunner") == {
        "runner": "FlinkRunner",
        "id": "mine-1",
        "name": "mine",
        "cluster": f"http://{flink}",
        "cluster_id": "b" * 32,
    }
    assert Overview.asked == 3


@pytest.mark.cases(1)
def test_a_job_that_the_cluster_never_takes_is_an_error(flink: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_TAKEN_SECONDS", 0.1)
    monkeypatch.setattr(Overview, "asked", -1_000_000)
    result = SimpleNamespace(state="RUNNING", _job_id="mine-1")
    with pytest.raises(JobError, match="did not take the job mine"):
        jobs.handed_over(result, named(flink), "FlinkRunner")


def test_a_job_that_fails_before_the_cluster_has_it_is_an_error(flink: str) -> None:
    def fail() -> None:
        raise RuntimeError("Pipeline mine failed in state FAILED: java.net.ConnectException: refused")

    result = SimpleNamespace(state="FAILED", _job_id="mine-1", wait_until_finish=fail)
    with pytest.raises(JobError, match=r"java\.net\.ConnectException: refused"):
        jobs.handed_over(result, named(flink), "FlinkRunner")


@pytest.mark.thorough
def test_detached_job_leaves_a_record_of_which_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(submitting, "keep_what_is_loaded", lambda: begun.append("work"))
    config = files(tmp_path, *SERVED, "--streaming", "--job_name=minutes")
    found = submit(config.changed(detach=True))
    assert found is not None
    assert begun == ["work"]
    record = parse_document(Path(config.outputs.output, "run.json").read_text())
    assert record == found.as_record()
    assert (record["status"], record["exit_code"]) == ("detached", 0)
    assert "indicators" not in record  # nobody has looked at what the job will publish
    assert record["accounting"]["total"]["read"] == 0
    job = record["job"]
    assert (job["runner"], job["name"]) == ("PortableRunner", "minutes")
    assert job["id"].startswith("job")
    # The job goes on meanwhile, and is over before the test.
    poll(lambda: counted(config.outputs.output) >= 120)


def counted(output: str) -> int:
    found = (json.loads(path.read_text()) for path in Path(output, "accounting").glob("*-epoch-*.json"))
    return sum(record["accounting"]["counted"] for record in found)


def prism(*beam_args: str) -> None:
    make_pipeline(RunConfig.parsed((collection(),), output="out", runner="PrismRunner", beam_args=beam_args))


def test_prism_needs_its_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(jobs.PRISM_BINARY, raising=False)
    with pytest.raises(UsageError, match=r"go install .*/cmd/prism@v\d") as caught:
        prism()
    assert caught.value.code == "E-USAGE-RUNNER"
    absent = tmp_path / "prism"
    with pytest.raises(UsageError, match=f"there is no Prism binary {absent}"):
        prism(f"--prism_location={absent}")
    monkeypatch.setenv(jobs.PRISM_BINARY, str(absent))
    with pytest.raises(UsageError, match=f"there is no Prism binary {absent}"):
        prism()
    absent.touch()
    prism()
    assert jobs.with_binary([])[0] == f"--prism_location={absent}"
    # What is typed counts for more.
    assert jobs.with_binary([f"--prism_location={absent}"])[0] == f"--prism_location={absent}"


SUBSCRIPTION = ("--subscription", "projects/p/subscriptions/s")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*SUBSCRIPTION, "--runner", "FlinkRunner"),
            "FlinkRunner reads Pub/Sub through Beam's Java",
        ),
        (("--input", "*", "--pubsub-expansion", "h:1"), "--pubsub-expansion goes with --subscription"),
        ((*SUBSCRIPTION, "--pubsub-expansion", "h:1"), "the runner of this machine reads Pub/Sub by itself"),
        (("--watch", ".", "--timestamp-attribute", "received"), "those of a collector hold the arrival"),
    ],
)
def test_options_of_another_source_are_refused(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    agreed = Path(__file__).parents[2] / "examples" / "minutes_in_app.yaml"
    command = ["run", "--collection", str(agreed), "--output", str(tmp_path / "out"), *words]
    done = CliRunner().invoke(cli, command)
    assert isinstance(done.exception, UsageError)
    assert done.exception.code == "E-USAGE-OPTION"
    assert said in str(done.exception)
    assert not (tmp_path / "out").exists()
