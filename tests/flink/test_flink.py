"""The graph counts the same on Flink as in this process: embedded, on a cluster, through failures."""

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.flink.cluster import Cluster, Worker, until
from tests.flink.fetch import FLINK_MINOR, job_server
from tests.flink.graph import Config, Counts, Published, bounded, build, expected, live, outcome
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

PARALLEL = "--parallelism=2"
STREAMING = ["--streaming", PARALLEL]
# Checkpoints are off by default. A step of a splittable source takes a whole bundle, a second by default.
CHECKPOINTS = ["--checkpointing_interval=1000", "--max_bundle_time_mills=100"]


def run(config: Config, *options: str) -> beam.runners.runner.PipelineResult:
    pipeline = beam.Pipeline(options=PipelineOptions(list(options)))
    build(pipeline, config)
    return pipeline.run()


def on_cluster(job_endpoint: str, worker: Worker, name: str, *more: str, streaming: bool = True) -> list[str]:
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={job_endpoint}",
        f"--job_name={name}",
        "--environment_type=EXTERNAL",
        f"--environment_config=127.0.0.1:{worker.port}",
        *(STREAMING if streaming else [PARALLEL]),
        *more,
    ]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    """What FnApiRunner publishes; a plain loop agrees."""
    config = bounded(tmp_path_factory.mktemp("reference"))
    run(config, "--runner=FnApiRunner").wait_until_finish()
    assert outcome(config) == expected(config)
    return outcome(config)


@pytest.mark.slow
def test_embedded_cluster_counts_the_same(reference: Counts, tmp_path: Path) -> None:
    config = bounded(tmp_path)
    jar = job_server().jar
    flink = ["--runner=FlinkRunner", "--flink_master=[local]", f"--flink_version={FLINK_MINOR}"]
    result = run(config, *flink, f"--flink_job_server_jar={jar}", *STREAMING)
    result.wait_until_finish()
    assert outcome(config) == reference


@pytest.mark.slow
def test_standalone_cluster_counts_the_same(
    reference: Counts, cluster: Cluster, job_endpoint: str, worker: Worker, tmp_path: Path
) -> None:
    config = bounded(tmp_path / "out")
    run(config, *on_cluster(job_endpoint, worker, "standalone")).wait_until_finish()
    assert outcome(config) == reference
    assert len(cluster.registered()) == 2


@pytest.mark.timeout(4 * PATIENCE)
def test_job_recovers_from_a_killed_task_manager_and_a_killed_worker_pool(
    reference: Counts, cluster: Cluster, job_endpoint: str, worker: Worker, tmp_path: Path
) -> None:
    config = live(tmp_path / "out")
    run(config, *on_cluster(job_endpoint, worker, "recovery", *CHECKPOINTS))
    job = cluster.job("recovery")
    published = Published(config)

    def goes_on(checkpoints: int) -> None:
        """Several checkpoints complete from now on, the job running."""
        goal = cluster.checkpoints(job) + checkpoints
        until(f"{goal} checkpoints", lambda: cluster.checkpoints(job) >= goal or None)

    goes_on(2)
    assert published.look() != reference, "the job was over before anything was killed"
    cluster.kill_manager(job)
    cluster.add_manager()
    until("a restart", lambda: cluster.restarts(job) >= 1 or None)
    goes_on(2)
    assert published.look() != reference, "the job was over before the pool was killed"
    before = cluster.restarts(job)
    worker.kill()
    until("the job to stumble", lambda: cluster.state(job) != "RUNNING" or cluster.restarts(job) > before)
    worker.restart()
    try:
        until("the counts", lambda: published.look() == reference or None)
    except TimeoutError:
        pytest.fail(f"{published.look()} instead of {reference}\n{cluster.problems(job)}")
    # Nothing comes afterwards that would change them.
    goes_on(3)
    assert published.look() == reference
    assert cluster.restarts(job) > before, "the pool was killed and nobody noticed"
    cluster.cancel(job)
