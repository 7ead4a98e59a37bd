"""A subscription is counted once on Flink, through the death of a TaskManager."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from google.cloud import pubsub_v1

from ldpbeam.pipelines.submit import submit
from tests.flink.cluster import Cluster, Worker, until
from tests.flink.expansion import ExpansionService
from tests.flink.rest import serving_rest
from tests.flink.stream import Config, Counts, Published, expected, message
from tests.flink.test_flink import on_cluster
from tests.pubsub.emulator import emulator
from tests.waiting import PATIENCE

pytestmark = [
    pytest.mark.flink,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# The test waits for the connector's watermark. Rarer checkpoints and longer bundles make the wait cheaper.
CHECKPOINTS = ["--checkpointing_interval=3000", "--max_bundle_time_mills=500"]
NO_CREDENTIALS = "org.apache.beam.sdk.extensions.gcp.auth.NoopCredentialFactory"


class EmulatorOptions(PipelineOptions):
    """Where the Java connector finds Pub/Sub."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--java_pubsub_root_url", dest="pubsub_root_url")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """Pub/Sub over HTTP; the clients of this process speak gRPC with it."""
    (tmp_path / "pubsub").mkdir()
    with (
        emulator(tmp_path / "pubsub", "pstest") as running,
        serving_rest(running.host) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PUBSUB_EMULATOR_HOST", running.host)
        yield address


@pytest.mark.timeout(4 * PATIENCE)
def test_subscription_is_counted_once_though_a_task_manager_is_killed(
    cluster: Cluster,
    job_endpoint: str,
    worker: Worker,
    root: str,
    expansion: ExpansionService,
    tmp_path: Path,
) -> None:
    config = Config(str(tmp_path / "out"), blocks=600, epochs=6, length=5, origin=int(time.time()) - 10)
    name = f"pubsub-{uuid4().hex[:8]}"
    topic = f"projects/ldp-test/topics/{name}"
    subscription = f"projects/ldp-test/subscriptions/{name}"
    publisher: Any = pubsub_v1.PublisherClient()
    publisher.create_topic(name=topic)
    with pubsub_v1.SubscriberClient() as administrator:
        # Longer than a restart takes; a message that is not acknowledged by then would only come twice.
        administrator.create_subscription(name=subscription, topic=topic, ack_deadline_seconds=60)

    def publish(numbers: range) -> None:
        for future in [publisher.publish(topic, message(config, number)) for number in numbers]:
            future.result(timeout=PATIENCE)

    options = on_cluster(job_endpoint, worker, name, *CHECKPOINTS)
    options += [f"--java_pubsub_root_url={root}", f"--credential_factory_class={NO_CREDENTIALS}"]
    found = submit(
        config.run.changed(
            subscription=subscription,
            pubsub_expansion=expansion.address,
            runner="PortableRunner",
            beam_args=tuple(options[1:]),
            detach=True,
        )
    )
    assert found is not None
    published, wanted = Published(config), expected(config)
    assert found.status == "detached"
    with kept_alive(publisher, topic, message(config, 0)):
        publish(range(200))
        job = cluster.job(name)
        until("the first epoch", published.look)
        for start in range(200, 600, 100):
            publish(range(start, start + 100))
            goal = cluster.checkpoints(job) + 1
            until("a checkpoint", partial(checkpointed, cluster, job, goal))
            if start == 300:
                cluster.kill_manager(job)
                cluster.add_manager()
                until("a restart", lambda: cluster.restarts(job) >= 1)
        try:
            until("the counts", lambda: counted(published.look()) == counted(wanted))
        except TimeoutError:
            pytest.fail(f"{published.look()} instead of {wanted}\n{cluster.problems(job)}")
        goal = cluster.checkpoints(job) + 3
        until("three more checkpoints", lambda: cluster.checkpoints(job) >= goal)
    assert counted(published.look()) == counted(wanted)
    cluster.cancel(job)
    publisher.stop()


@contextmanager
def kept_alive(publisher: Any, topic: str, repeated: bytes) -> Iterator[None]:
    """One message again and again; its reports count once."""
    over = Event()

    def send() -> None:
        while not over.wait(0.25):
            publisher.publish(topic, repeated).result(timeout=PATIENCE)

    sender = Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()


def checkpointed(cluster: Cluster, job: str, goal: int) -> bool:
    """Whether a job has made so many checkpoints."""
    return cluster.checkpoints(job) >= goal


def counted(counts: Counts) -> dict[int, tuple[list[int], int, int, int]]:
    """What must be exact: a subscription delivers at least once, so more may be read, and be a duplicate."""
    return {
        epoch: (support, account["counted"], account["late"], account["pending"] if epoch else 0)
        for epoch, (support, account) in counts.items()
    }
