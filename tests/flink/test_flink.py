"""The graph counts the same on Flink as a plain loop, through failures."""

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from ldpbeam.pipelines.unbounded import collect_stream
from tests.flink.cluster import Cluster, Worker, until
from tests.flink.stream import Published, arriving, expected, live
from tests.waiting import PATIENCE

pytestmark = [
    pytest.mark.flink,
    # Beam leaves channels and processes to the end of the interpreter.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # Two threads of Beam's worker in this process end with "Multiplexer hanging up" after the embedded job,
    # when Flink closes its channel first. They may end as late as during the next test.
    pytest.mark.filterwarnings(
        "ignore:Exception in thread (run_worker|read_grpc_client_inputs):"
        "pytest.PytestUnhandledThreadExceptionWarning"
    ),
]

# Checkpoints are off by default. A step of a splittable source takes a whole bundle, a second by default.
CHECKPOINTS = ["--checkpointing_interval=1000", "--max_bundle_time_mills=100"]


def on_cluster(job_endpoint: str, worker: Worker, name: str, *more: str, streaming: bool = True) -> list[str]:
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={job_endpoint}",
        f"--job_name={name}",
        "--environment_type=EXTERNAL",
        f"--environment_config=127.0.0.1:{worker.port}",
        "--parallelism=2",
        *(["--streaming"] if streaming else []),
        *more,
    ]


@pytest.mark.timeout(4 * PATIENCE)
def test_job_recovers_from_a_killed_task_manager_and_a_killed_worker_pool(
    cluster: Cluster, job_endpoint: str, worker: Worker, tmp_path: Path
) -> None:
    config = live(tmp_path / "out")
    published, wanted = Published(config), expected(config)
    pipeline = beam.Pipeline(
        options=PipelineOptions(on_cluster(job_endpoint, worker, "recovery", *CHECKPOINTS))
    )
    _ = arriving(pipeline, config) | "Collect" >> collect_stream(config.run)
    pipeline.run()
    job = cluster.job("recovery")
    cluster.goes_on(job, 2)
    assert published.look() != wanted, "the job was over before anything was killed"
    cluster.replace_manager(job)
    cluster.goes_on(job, 2)
    assert published.look() != wanted, "the job was over before the pool was killed"
    before = cluster.restarts(job)
    worker.kill()
    until("the job to stumble", lambda: cluster.state(job) != "RUNNING" or cluster.restarts(job) > before)
    worker.restart()
    try:
        until("the counts", lambda: published.look() == wanted)
    except TimeoutError:
        pytest.fail(f"{published.look()} instead of {wanted}\n{cluster.problems(job)}")
    # Nothing comes afterwards that would change them.
    cluster.goes_on(job, 3)
    assert published.look() == wanted
    assert cluster.restarts(job) > before, "the pool was killed and nobody noticed"
    names = {"reports_read", "reports_admitted", "reports_duplicate", "results"}
    until("counters on the page", lambda: cluster.live_counters(job).keys() >= names)
    cluster.cancel(job)
