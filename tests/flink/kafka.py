"""One Kafka broker without ZooKeeper, and a producer."""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.flink.cluster import JAVA, Process, free_port
from tests.flink.fetch import kafka

__all__ = ["Broker"]


class Broker(Process):
    """A broker that keeps records however old their timestamps are; topics appear with the first record."""

    def __init__(self, folder: Path) -> None:
        """Format the storage and start."""
        folder.mkdir(parents=True)
        port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / "log"),
            "log.retention.ms": "-1",
            "num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
        }
        path = folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._classes = folder / "classes"
        sources = [str(Path(__file__).with_name(name)) for name in ("Produce.java", "Pour.java")]
        compile_ = ["javac", "-d", str(self._classes), "-cp", kafka(), *sources]
        subprocess.run(compile_, check=True, capture_output=True)
        # In one word with its option: one of 64 identities begins with "-".
        form = self._java("kafka.tools.StorageTool", "format", f"--cluster-id={identity}", "-c", str(path))
        subprocess.run(form, check=True, capture_output=True)
        super().__init__(self._java("kafka.Kafka", str(path)), folder / "broker.log")
        self.await_port(port)

    @staticmethod
    def _java(main: str, *arguments: str) -> list[str]:
        return [*JAVA, "-Xmx384m", "-cp", kafka(), main, *arguments]

    def produce(self, topic: str, numbers: range, base: int, millis: int, pause: int = 0) -> list[str]:
        """The command that sends the numbers, each stamped with `base` and its multiple of `millis`."""
        words: Sequence[object] = (self.address, topic, numbers.start, len(numbers), base, millis, pause)
        path = os.pathsep.join([kafka(), str(self._classes)])
        return [*JAVA, "-cp", path, "Produce", *map(str, words)]

    def pour(self, topic: str) -> list[str]:
        """The command that sends each line of base64 from its standard input, stamped with the time."""
        path = os.pathsep.join([kafka(), str(self._classes)])
        return [*JAVA, "-Xmx256m", "-cp", path, "Pour", self.address, topic]
