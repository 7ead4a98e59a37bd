"""The engine as a user starts it: the real command in a process of its own, watched through its output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow.parquet as pq

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import instant
from ldpbeam.collection.values import Index
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.transforms.coders import ReportColumnsCoder
from ldpbeam.wire import report_pb2
from tests.conftest import REPOSITORY
from tests.environment import ENVIRONMENT
from tests.ldpbeam.engine.kept import CONTENT, ENGINE, LANDED, kept
from tests.narrow import present
from tests.pipelines.running import check_books, expected_support, frame
from tests.waiting import PATIENCE, poll

T = TypeVar("T")

Counts = dict[tuple[str, int], tuple[int, list[int]]]
"""Reports and support by digest and epoch."""


def ldpbeam(*arguments: object, code: int = 0, host: str = "") -> str:
    """A command that ends; returns what it printed on both streams."""
    done = subprocess.run(
        [sys.executable, "-m", "ldpbeam.cli.main", *map(str, arguments)],
        cwd=REPOSITORY,
        env={**ENVIRONMENT, "PUBSUB_EMULATOR_HOST": host},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == code, f"{done.returncode}: {done.stdout}"
    return done.stdout


# --- collections and what devices send


def agree(
    path: Path, name: str, *, length: int, lateness: int, protocol: str = "olh", **more: object
) -> Path:
    """A collection file whose epoch 0 began when it was written; ``more`` are lines of it."""
    lines = {
        "name": name,
        "version": 1,
        "domain": "{size: 11}",
        "protocol": protocol,
        "epsilon": 1.0,
        "epoch": f"{{length: {length}s, origin: {instant(int(time.time()))}}}",
        "allowed_lateness": f"{lateness}s",
        "future_tolerance": "0s",
        "min_reports": 1,
        **more,
    }
    path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return path


def epoch_at(agreed: Collection, when: float) -> int:
    return int(when - agreed.epochs.origin) // agreed.epochs.length


def reports(agreed: Collection, epoch: int, devices: int, seed: int = 1) -> ReportColumns:
    """What so many devices report in an epoch, in one batch."""
    draw = np.random.default_rng([seed, epoch])
    values = draw.integers(0, present(agreed.domain).size, devices).astype(np.int32)
    return Fleet(agreed, devices, seed).report(Index(values), epoch)


def some(columns: ReportColumns, first: int, end: int) -> ReportColumns:
    return ReportColumns(
        columns.digest, columns.epoch, columns.report_ids[first:end], columns.payloads[first:end]
    )


def batch(agreed: Collection, columns: ReportColumns) -> bytes:
    """One message with all of them."""
    return report_pb2.ReportBatch(
        digest=agreed.digest,
        epoch=columns.epoch,
        count=len(columns),
        report_ids=columns.report_ids.tolist(),
        payloads=columns.payloads.tobytes(),
    ).SerializeToString()


def batches(agreed: Collection, columns: ReportColumns, size: int) -> list[bytes]:
    return [batch(agreed, some(columns, at, at + size)) for at in range(0, len(columns), size)]


def single(agreed: Collection, columns: ReportColumns, index: int) -> bytes:
    """One message with one report."""
    return report_pb2.Report(
        digest=agreed.digest,
        epoch=columns.epoch,
        report_id=int(columns.report_ids[index]),
        payload=columns.payloads[index].tobytes(),
    ).SerializeToString()


def slowly(scratch: Path, agreed: Sequence[Collection], messages: Iterable[bytes]) -> Counts:
    """What must be counted of sound messages: read by protobuf, counted by asking every report."""
    file = scratch / f"sent-{time.monotonic_ns()}.pb"
    file.write_bytes(b"".join(map(frame, messages)))
    return expected_support(agreed, [file])


# --- what an engine leaves


def books(output: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Content of accounting/ by digest and epoch."""
    found = [json.loads(path.read_text()) for path in (output / "accounting").glob("*-epoch-*.json")]
    return {(record["digest"], record["epoch"]): record for record in found}


def panes(output: Path, agreed: Collection, epoch: int) -> list[str]:
    record = books(output).get((agreed.digest_hex, epoch), {"revisions": []})
    return [revision["pane"] for revision in record["revisions"]]


def newest(output: Path) -> Counts:
    """The newest result of each epoch, through its books."""
    found: Counts = {}
    for key, record in books(output).items():
        numbers = [r["revision"] for r in record["revisions"]]
        # A number that was given when the engine died may never have been published.
        assert numbers == sorted(set(numbers)), numbers
        if record["revisions"]:
            last = record["revisions"][-1]
            table = pq.read_table(output / last["file"])
            assert set(table["n"].to_pylist()) == {last["n"]} == {record["accounting"]["counted"]}
            assert set(table["revision"].to_pylist()) == {last["revision"]}
            found[key] = (last["n"], table["support"].to_pylist())
    return found


def tables(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((output / "estimates").glob("*.parquet"))}


def numbers_landed(output: Path) -> tuple[int, int]:
    """How many segments and messages were ever landed."""
    line = {"number": 0, "messages": 0}
    for row in kept(output, ENGINE).values():
        line = json.loads(row)
    return line["number"], line["messages"]


def messages_landed(output: Path) -> int:
    return numbers_landed(output)[1]


def ids_landed(output: Path) -> dict[tuple[str, int], set[int]]:
    """Report ids on disk, by digest and epoch."""
    epochs = {}
    for row in kept(output, LANDED).values():
        digest, epoch, group, *_ = json.loads(row)
        epochs[group] = digest, epoch
    found: dict[tuple[str, int], set[int]] = {}
    for place, content in kept(output, CONTENT).items():
        if (key := epochs.get(place >> 28)) is not None:  # not those of refused messages
            found.setdefault(key, set()).update(ReportColumnsCoder().decode(content).report_ids.tolist())
    return found


def rejects(output: Path) -> list[dict[str, Any]]:
    """All rows of the rejects."""
    return [row for path in (output / "rejects").glob("*.parquet") for row in pq.read_table(path).to_pylist()]


def unattributed(output: Path) -> dict[str, int]:
    """Rejected records that belong to no epoch, as accounting/ has them."""
    found: Counter[str] = Counter()
    for path in (output / "accounting").glob("other-*.json"):
        line = json.loads(path.read_text())["accounting"]
        assert line["read"] == sum(line["rejected"].values())
        found.update(line["rejected"])
    return dict(found)


def stopped(output: Path) -> dict[str, Any]:
    """run.json of an engine that has stopped: it balances, and says the same as accounting/."""
    record: dict[str, Any] = json.loads((output / "run.json").read_text())
    assert record["status"] == "stopped"
    check_books(record)
    lines = {(line["digest"], line["epoch"]): line for line in record["accounting"]["epochs"]}
    told = books(output)
    assert lines.keys() == told.keys()
    for key, line in lines.items():
        kept = told[key]["accounting"]
        assert kept == {**{name: line[name] for name in kept if name != "pending"}, "pending": 0}
    assert record["accounting"]["unattributed"]["rejected"] == unattributed(output)
    listed = {Path(file["path"]).name for file in record["files"]}
    assert listed == {Path(r["file"]).name for b in told.values() for r in b["revisions"] if r["file"]}
    return record


def _written(output: Path) -> int:
    path = output / "run.json"
    return path.stat().st_mtime_ns if path.exists() else 0


@dataclass
class Engine:
    """A running ``ldpbeam run --subscription``."""

    process: subprocess.Popen[bytes]
    output: Path
    log: Path
    before: int
    """When the record was written that was there before."""

    @property
    def record(self) -> dict[str, Any]:
        """run.json, empty before there is one."""
        path = self.output / "run.json"
        return json.loads(path.read_text()) if path.is_file() else {}

    def until(self, what: Callable[[], T], seconds: float = PATIENCE) -> T:
        """Wait for something while the engine runs."""

        def told() -> str:
            return f"{self.log.read_text()}\n{json.dumps(self.record.get('accounting'))}"

        def alive() -> T:
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {told()}"
            return what()

        return poll(alive, seconds, told)

    def ready(self) -> Self:
        """It has connected and drawn once: this engine's record is there."""
        self.until(lambda: _written(self.output) > self.before)
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self, number: int = signal.SIGTERM) -> int:
        """Drain; gives the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@dataclass
class Engines:
    """Starts them, and ends what is left of them."""

    scratch: Path
    host: str
    started: list[Engine] = field(default_factory=list)

    def start(
        self, output: Path, subscription: str, *collections: Path, cwd: Path = REPOSITORY, **options: object
    ) -> Engine:
        """With second-long intervals unless ``options`` say otherwise; None leaves one out."""
        given = {"watermark_delay": "1s", "late_every": "1s", "land_every": "1s", **options}
        arguments = [f"--collection={path}" for path in collections]
        arguments += [f"--{name}={value}" for name, value in given.items() if value is not None]
        command = ["run", *arguments, f"--subscription={subscription}", f"--output={output}"]
        return self.execute(command, output, cwd)

    def execute(self, arguments: list[str], output: Path, cwd: Path = REPOSITORY) -> Engine:
        log, before = self.scratch / f"engine-{time.monotonic_ns()}.log", _written(output)
        with log.open("wb") as out:
            command = [sys.executable, "-m", "ldpbeam.cli.main", *arguments]
            where = {**ENVIRONMENT, "PUBSUB_EMULATOR_HOST": self.host}
            process = subprocess.Popen(command, cwd=cwd, stdout=out, stderr=out, env=where)
        engine = Engine(process, output, log, before)
        self.started.append(engine)
        return engine

    def close(self) -> None:
        for engine in self.started:
            engine.kill()
