"""The graph counts what a Kafka topic holds, once."""

import subprocess
import time
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.stream.kafka import ReadKafka
from tests.flink.cluster import Cluster, Process, Worker, until
from tests.flink.expansion import ExpansionService
from tests.flink.kafka import Broker
from tests.flink.stream import Config, count, expected, outcome
from tests.flink.test_flink import CHECKPOINTS, on_cluster

pytestmark = [
    pytest.mark.flink,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOPIC = "reports"


@pytest.mark.timeout(600)
# Killed: not reliable yet, see docs/flink.md; nothing is lost, but a shard may stay untold.
@pytest.mark.parametrize(
    "killed", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["undisturbed", "killed"]
)
def test_topic_is_counted_once(
    cluster: Cluster, job_endpoint: str, worker: Worker, tmp_path: Path, killed: bool
) -> None:
    # Records have the time at which they are sent: once a topic is read up, its watermark is the wall clock.
    origin = int(time.time()) - 10
    config = Config(str(tmp_path / "out"), blocks=600, epochs=6, length=5, origin=origin)
    per_epoch = config.blocks // config.epochs
    broker = Broker(tmp_path / "kafka")
    try:
        expansion = ExpansionService(tmp_path / "expansion")
    except BaseException:
        broker.kill()
        raise
    name = "kafka-killed" if killed else "kafka"
    millis = config.length * 1000 // per_epoch
    base = origin * 1000
    producer: Process | None = None
    try:
        first = broker.produce(TOPIC, range(2 * per_epoch), base, millis)
        subprocess.run(first, check=True, capture_output=True)
        pipeline = beam.Pipeline(
            options=PipelineOptions(on_cluster(job_endpoint, worker, name, *CHECKPOINTS))
        )
        values = pipeline | "Read" >> ReadKafka(broker.address, [TOPIC], expansion.address)
        count(values | "Number" >> beam.Map(int).with_output_types(int), config)
        pipeline.run()
        job = cluster.job(name)
        until("the first epoch", lambda: outcome(config), 120)
        # The rest arrives slowly, so that the kill comes in the middle of it.
        rest = broker.produce(TOPIC, range(2 * per_epoch, config.blocks), base, millis, pause=100)
        producer = Process(rest, tmp_path / "producer.log")
        goal = cluster.checkpoints(job) + 2
        until("two checkpoints", lambda: cluster.checkpoints(job) >= goal, 120)
        assert producer.alive, "the topic was complete before anything was killed"
        if killed:
            cluster.kill_manager(job)
            cluster.add_manager()
        try:
            until("the counts", lambda: outcome(config) == expected(config), 150)
        except TimeoutError:
            pytest.fail(f"{outcome(config)} instead of {expected(config)}\n{cluster.problems(job)}")
        assert cluster.restarts(job) > 0 or not killed
        goal = cluster.checkpoints(job) + 2
        until("two more checkpoints", lambda: cluster.checkpoints(job) >= goal)
        assert outcome(config) == expected(config)
        cluster.cancel(job)
    finally:
        for process in filter(None, (producer, expansion, broker)):
            process.kill()
