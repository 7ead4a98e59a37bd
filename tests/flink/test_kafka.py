"""The graph counts what a Kafka topic holds, once."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from ldpbeam.pipelines.unbounded import collect_stream
from ldpbeam.transforms.sources.kafka import read_kafka
from tests.flink.cluster import Cluster, Process, Worker, until
from tests.flink.expansion import ExpansionService
from tests.flink.kafka import Broker
from tests.flink.stream import Config, Published, expected, message
from tests.flink.test_flink import CHECKPOINTS, on_cluster
from tests.waiting import PATIENCE

pytestmark = [
    pytest.mark.flink,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with closing(Broker(tmp_path_factory.mktemp("kafka") / "broker")) as running:
        yield running


@pytest.mark.timeout(4 * PATIENCE)
def test_topic_is_counted_once(
    cluster: Cluster,
    job_endpoint: str,
    worker: Worker,
    broker: Broker,
    expansion: ExpansionService,
    tmp_path: Path,
) -> None:
    # Records have the time at which they are sent: once a topic is read up, its watermark is the wall clock.
    origin = int(time.time()) - 10
    config = Config(str(tmp_path / "out"), blocks=600, epochs=6, length=5, origin=origin)
    published, wanted = Published(config), expected(config)
    per_epoch = config.blocks // config.epochs
    name = "kafka-"
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
        sent = values | beam.Map(lambda number: message(config, int(number))).with_output_types(bytes)
        _ = sent | "Collect" >> collect_stream(config.run)
        pipeline.run()
        job = cluster.job(name)
        until("the first epoch", published.look)
        # These arrive slowly, so that the kill comes in the middle of them; the last come after it.
        middle = produce("middle.log", range(2 * per_epoch, 5 * per_epoch), pause=50)
        cluster.goes_on(job, 3)
        cluster.replace_manager(job)
        until("five epochs in the topic", middle.ended)
        produce("last.log", range(5 * per_epoch, config.blocks), pause=50)
        try:
            until("the counts", lambda: published.look() == wanted)
        except TimeoutError:
            pytest.fail(f"{published.look()} instead of {wanted}\n{cluster.problems(job)}")
        # Nothing comes afterwards that would change them.
        cluster.goes_on(job, 2)
        assert published.look() == wanted
        cluster.cancel(job)
