"""The graph counts what a Kafka topic holds, once."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from ldpbeam.transforms.sources.kafka import read_kafka
from tests.flink.cluster import Cluster, Process, Worker, until
from tests.flink.expansion import ExpansionService
from tests.flink.kafka import Broker
from tests.flink.stream import Config, Published, count, expected
from tests.flink.test_flink import CHECKPOINTS, on_cluster
from tests.waiting import PATIENCE

pytestmark = [
    pytest.mark.flink,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = Broker(tmp_path_factory.mktemp("kafka") / "broker")
    try:
        yield running
    finally:
        running.kill()


@pytest.mark.timeout(4 * PATIENCE)
@pytest.mark.parametrize(
    "killed", [pytest.param(False, marks=pytest.mark.slow), True], ids=["undisturbed", "killed"]
)
def test_topic_is_counted_once(
    cluster: Cluster,
    job_endpoint: str,
    worker: Worker,
    broker: Broker,
    expansion: ExpansionService,
    tmp_path: Path,
    killed: bool,
) -> None:
    # Records have the time at which they are sent: once a topic is read up, its watermark is the wall clock.
    origin = int(time.time()) - 10
    config = Config(str(tmp_path / "out"), blocks=600, epochs=6, length=5, origin=origin)
    published, wanted = Published(config), expected(config)
    per_epoch = config.blocks // config.epochs
    name = f"kafka-{'killed' if killed else 'undisturbed'}-"
    topic = f"{name}{origin}"
    millis = config.length * 1000 // per_epoch

    def produce(log: str, numbers: range, pause: int = 0) -> Process:
        command = broker.produce(topic, numbers, origin * 1000, millis, pause)
        producers.callback((process := Process(command, tmp_path / log)).kill)
        return process

    with ExitStack() as producers:
        until("two epochs in the topic", produce("first.log", range(2 * per_epoch)).ended)
        pipeline = beam.Pipeline(
            options=PipelineOptions(on_cluster(job_endpoint, worker, name, *CHECKPOINTS))
        )
        values = pipeline | "Read" >> read_kafka(broker.address, [topic], expansion.address)
        count(values | "Number" >> beam.Map(int).with_output_types(int), config)
        pipeline.run()
        job = cluster.job(name)
        until("the first epoch", published.look)
        # These arrive slowly, so that the kill comes in the middle of them; the last come after it.
        middle = produce("middle.log", range(2 * per_epoch, 5 * per_epoch), pause=50)
        goal = cluster.checkpoints(job) + 3
        until("three checkpoints", lambda: cluster.checkpoints(job) >= goal)
        if killed:
            cluster.kill_manager(job)
            cluster.add_manager()
            until("a restart", lambda: cluster.restarts(job) > 0)
        until("five epochs in the topic", middle.ended)
        produce("last.log", range(5 * per_epoch, config.blocks), pause=50)
        try:
            until("the counts", lambda: published.look() == wanted)
        except TimeoutError:
            pytest.fail(f"{published.look()} instead of {wanted}\n{cluster.problems(job)}")
        # Nothing comes afterwards that would change them.
        goal = cluster.checkpoints(job) + 2
        until("two more checkpoints", lambda: cluster.checkpoints(job) >= goal)
        assert published.look() == wanted
        assert killed or cluster.restarts(job) == 0
        cluster.cancel(job)
