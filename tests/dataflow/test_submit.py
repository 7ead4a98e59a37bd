"""A job for Dataflow without an account: rehearsed, written as a template, and received by a service."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as api
from apache_beam.runners.dataflow import dataflow_runner
from apache_beam.runners.dataflow.internal import apiclient
from google.cloud.dataflow import JobType

from tests.conftest import REPOSITORY
from tests.dataflow.conftest import Call
from tests.dataflow.service import OPTIONS, Graph, serving
from tests.dataflow.store import ObjectStore
from tests.pipelines.running import collection, fleet, write

CLOUD = [*OPTIONS, "--temp_location", "gs://my-bucket/temp", "--output", "gs://my-bucket/results"]
BEAM = (
    f"gcr.io/cloud-dataflow/v1beta3/beam_python{sys.version_info.major}.{sys.version_info.minor}_sdk:2.77.0"
)
EVENT_TIME = api.TimeDomain.EVENT_TIME
STREAM_LABELS = REPOSITORY / "tests" / "pipelines" / "stream_labels.txt"
PARDO, GROUP = "beam:transform:pardo:v1", "beam:transform:group_by_key:v1"
INTO, COMBINE = "beam:transform:window_into:v1", "beam:transform:combine_per_key:v1"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Jobs that Beam's client of Dataflow makes."""
    found: list[Any] = []

    class Job(apiclient.Job):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            found.append(self)

    monkeypatch.setattr(apiclient, "Job", Job)
    return found


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A file of reports."""
    return next(write(tmp_path / "reports", collection(), fleet(collection(), 20, 1)).iterdir())


def of_any_shards(labels: set[str]) -> set[str]:
    return {re.sub(r"Of\d+\b", "Of8", label) for label in labels}


def is_the_unbounded_graph(graph: Graph, timestamps: str = "") -> None:
    """Sources, shuffles, state, timers and labels of the unbounded graph; its times are of that attribute."""
    urns = graph.urns()
    assert urns["Read/Read"] == "beam:transform:pubsub_read:v1"
    read = graph.payload("Read/Read", api.PubSubReadPayload)
    assert read.subscription == "projects/my-project/subscriptions/reports"
    assert read.with_attributes
    assert read.timestamp_attribute == timestamps
    # Epochs are kept in state, not in windows; only rejects are grouped by minutes.
    assert [label for label, urn in urns.items() if urn == INTO] == ["Collect/Rejects/Minute"]
    assert [label for label, urn in urns.items() if urn == GROUP] == ["Collect/Rejects/Together"]
    shard, total, others = (
        "Collect/Count/Count/CountShardOf8",
        "Collect/Count/Count/SumShardsOf8",
        "Collect/Unattributed/Sum/Sum",
    )
    assert graph.stateful() == {
        shard: ({"reports", "state", "last"}, {"shard_due": EVENT_TIME, "shard_watch": EVENT_TIME}),
        total: ({"counts", "state"}, {"epoch_due": EVENT_TIME, "epoch_watch": EVENT_TIME}),
        others: ({"state"}, {"unattributed_due": EVENT_TIME}),
    }
    # A key that is encoded in two ways would be two keys.
    keys = {label: graph.key_coder(label) for label in (shard, total, others)}
    text, number, pair = "beam:coder:string_utf8:v1", "beam:coder:varint:v1", "beam:coder:tuple:v1"
    assert keys[shard] == [pair, text, number, number]
    assert keys[total] in ([pair, text, number], ["beam:coder:kv:v1", text, number])
    assert keys[others] == [text]
    published = of_any_shards(set(STREAM_LABELS.read_text().partition("\n\n")[0].splitlines()))
    assert published - of_any_shards(graph.labels) == set()
    assert {re.sub(r"^Read/.*", "Read", label) for label in urns if not label.startswith("Collect/")} == {
        "Read",
    }


def test_a_dry_run_builds_the_job_and_starts_nothing(
    call: Call, stream: list[object], built: list[Any], offline: list[Any]
) -> None:
    options = ["--sdk_location", "container", "--timestamp_attribute", "received", "--dry_run"]
    code, out, err = call(*stream, *CLOUD, *options)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "checked a streaming job for DataflowRunner; nothing was started"
    assert offline == []
    (job,) = built
    assert job.proto.type_.name == "JOB_TYPE_STREAMING"
    assert job.proto.name == "minutes"
    graph = Graph(job.proto_pipeline)
    is_the_unbounded_graph(graph, timestamps="received")
    assert graph.images() == {BEAM}
    assert not job.options.get_all_options()["save_main_session"]


@pytest.mark.parametrize(
    ("left_out", "added", "says"),
    [
        ("--project", [], "project"),
        ("--region", [], "region"),
        ("", ["--job_name", "Not A Name"], "job_name"),
        ("", ["--max_workers", "4"], "--max_num_workers"),
        ("", ["--extra_package", "no.whl"], "no.whl"),
    ],
)
def test_what_a_dry_run_refuses(
    call: Call,
    stream: list[object],
    monkeypatch: pytest.MonkeyPatch,
    left_out: str,
    added: list[str],
    says: str,
) -> None:
    monkeypatch.setenv("PATH", "")  # no gcloud that knows a region
    at = CLOUD.index(left_out) if left_out else len(CLOUD)
    options = [*CLOUD[:at], *CLOUD[at + 2 :], *added]
    code, _, err = call(*stream, *options, "--dry_run")
    assert code == 2, err
    assert says in err
    assert "Traceback" not in err


@pytest.mark.thorough
def test_a_batch_job_groups_and_combines_in_windows_of_epochs(
    call: Call, agreed: Path, reports: Path, built: list[Any], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    arguments = ["run", "--collection", agreed, "--input", reports, "--output", output]
    code, out, err = call(*arguments, "--runner", "DataflowRunner", *CLOUD[:-2], "--dry_run")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "checked a batch job for DataflowRunner; nothing was started"
    assert not output.exists()
    (job,) = built
    assert job.proto.type_.name == "JOB_TYPE_BATCH"
    graph = Graph(job.proto_pipeline)
    urns = graph.urns(leaves=False)
    one = {label.removeprefix("Collect/Count/Count/"): urn for label, urn in urns.items()}
    wanted = {
        "Epoch/Windows": INTO,
        "EntriesByEpoch/Windows": INTO,
        "OncePerReportId/Gather": GROUP,
        "Support": COMBINE,
    }
    assert {label: one.get(label) for label in wanted} == wanted
    windows = graph.window_of("Collect/Count/Count/Epoch/Windows")
    assert (windows.urn, windows.size) == ("beam:window_fn:fixed_windows:v1", 3600)
    assert graph.stateful() == {}


@pytest.mark.thorough
def test_a_service_receives_the_job(call: Call, stream: list[object], tmp_path: Path) -> None:
    with serving("JOB_STATE_RUNNING") as service:
        options = [*service.options(tmp_path / "staged"), "--num_workers=2", "--max_num_workers=8"]
        options += ["--machine_type=n2-standard-4", "--labels=team=telemetry"]
        code, out, err = call(*stream, "--output", "mem://my-bucket/results", *options, "--detach")
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == [
        "job-1 on DataflowRunner",
        "submitted; results will appear in mem://my-bucket/results",
    ]
    record = json.loads(ObjectStore.objects.pop("mem://my-bucket/results/run.json"))
    assert (record["status"], record["exit_code"]) == ("detached", 0)
    assert record["job"] == {"runner": "DataflowRunner", "id": "job-1", "name": "minutes"}
    assert service.calls == ["POST /v1b3/projects/my-project/locations/europe-west1/jobs"]
    (job,) = service.jobs
    assert (job["name"], JobType(job["type"]).name) == ("minutes", "JOB_TYPE_STREAMING")
    assert job["labels"] == {"team": "telemetry"}
    environment = job["environment"]
    assert environment["version"]["job_type"] == "FNAPI_STREAMING"
    assert "enable_streaming_engine" in environment["experiments"]
    (pool,) = environment["workerPools"]
    assert (pool["numWorkers"], pool["machineType"]) == (2, "n2-standard-4")
    assert pool["autoscalingSettings"]["maxNumWorkers"] == 8
    assert [image["containerImage"] for image in pool["sdkHarnessContainerImages"]] == [BEAM]
    is_the_unbounded_graph(Graph.staged(tmp_path / "staged"))
    staged = {path.name for path in (tmp_path / "staged").iterdir()}
    assert staged == {"pipeline.pb", "submission_environment_dependencies.txt"}, "no pickled main session"


@pytest.mark.thorough
def test_a_running_job_is_replaced_under_its_labels(call: Call, stream: list[object], tmp_path: Path) -> None:
    mapping = '{"Collect/Count/Count/CountShard": "Collect/Count/Count/CountShardOf8"}'
    with serving("JOB_STATE_RUNNING") as service:
        options = [*service.options(tmp_path / "staged"), "--update", "--transform_name_mapping", mapping]
        options += ["--job", "a", "--detach"]
        code, _, err = call(*stream, "--output", "mem://my-bucket/results", *options)
    assert (code, err) == (0, "")
    (job,) = service.jobs
    assert job["replaceJobId"] == "job-0"
    assert job["transformNameMapping"] == json.loads(mapping)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("state", "code", "record"),
    [
        ("JOB_STATE_DRAINED", 5, True),
        ("JOB_STATE_UPDATED", 0, False),
        ("JOB_STATE_FAILED", 6, False),
    ],
)
def test_how_a_job_that_is_waited_for_ends(
    call: Call,
    stream: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    code: int,
    record: bool,
) -> None:
    quick = SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.002))
    monkeypatch.setattr(dataflow_runner, "time", quick)
    output = tmp_path / "out"
    output.mkdir()
    with serving("JOB_STATE_RUNNING", "JOB_STATE_RUNNING", state) as service:
        ended, out, err = call(*stream, "--output", output, *service.options(tmp_path / "staged"))
    assert ended == code, err
    assert (output / "run.json").exists() is record
    assert ("submitted; results will appear" in out) is (state == "JOB_STATE_UPDATED")
    assert ("Cup is empty" in err) is (state == "JOB_STATE_FAILED")
    assert ("[E-RUN-JOB]" in err) is (state == "JOB_STATE_FAILED")
