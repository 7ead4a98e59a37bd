"""The streaming graph itself, over reports that can be counted by a plain loop.

Message i holds reports of one collection; half of them are sent again by its neighbour, and some belong to
the first epoch though they arrive much later. Nothing lost or doubled can cancel out: the account
says how many reports were read, counted and repeated, and these numbers are compared as well.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.slices import Slices
from ldpbeam.job.config import RunConfig
from tests.pipelines.running import collection
from tests.reference.stream import Arrived, Model, batch_message

SIZE = 11
ARMS = ("treatment", "control")
PAUSE = 0.01

Counts = dict[int, tuple[list[int], dict[str, int]]]
"""By epoch: support of each value, and the account."""


@dataclass(frozen=True)
class Config:
    """What is sent, `blocks` messages of `ids` reports in turn over the epochs, and the folder of results."""

    output: str
    blocks: int = 600
    ids: int = 50
    epochs: int = 6
    length: int = 60
    origin: int = 0
    late: int = 0

    @property
    def agreed(self) -> Collection:
        """Lateness is generous: a job that recovers must not close what it has not read yet."""
        epochs = Epochs(self.length, self.origin, 10_000)
        slices = Slices.of({"arm": ARMS})
        return collection("grr", SIZE, "flink", epochs=epochs, allowed_lateness=86_400, slices=slices)

    @property
    def run(self) -> RunConfig:
        """Four shards, results every five seconds."""
        return RunConfig.parsed((self.agreed,), output=self.output, shard_bits=2, late_every=5, job="flink")

    def arrival(self, number: int) -> Timestamp:
        """When a message arrives: evenly over all epochs."""
        return Timestamp.of(self.origin + number * self.length * self.epochs / self.blocks)


def reports(config: Config, number: int) -> tuple[int, list[int]]:
    """Epoch and report ids of a message; each id is sent twice by neighbours of one epoch."""
    span = -(-config.blocks // config.epochs)
    epoch = 0 if config.late and number % config.late == 0 else number // span
    start = number * config.ids // 2
    return epoch, list(range(start, start + config.ids))


def message(config: Config, number: int) -> bytes:
    """A serialized batch; value and slice follow from id and epoch, so that repeats are repeats."""
    epoch, ids = reports(config, number)
    digest = config.agreed.slice_digest((("arm", _arm(epoch)),))
    return batch_message(digest, epoch, ids, bytes(_value(name) for name in ids))


def _arm(epoch: int) -> str:
    return ARMS[epoch % len(ARMS)]


def _value(name: int) -> int:
    return name * name % SIZE


def expected(config: Config) -> Counts:
    """By the rules of a stream."""
    model, agreed = Model(), config.agreed
    arrivals = (config.arrival(number).micros for number in range(config.blocks))
    model.land((Arrived(message(config, number), when) for number, when in enumerate(arrivals)), [agreed])
    named = ("read", "counted", "duplicate", "late")
    return {
        epoch: (model.support((digest, epoch)), {**{name: line[name] for name in named}, "pending": 0})
        for (digest, epoch), line in model.lines.items()
        if epoch is not None
    }


def outcome(config: Config) -> Counts:
    """The newest revision of each epoch, and its account, as published so far."""
    found: Counts = {}
    for path in sorted(Path(config.output, "accounting").glob("*-epoch-*.json")):
        record = json.loads(path.read_text())
        if record["revisions"]:
            table = pq.read_table(Path(config.output, record["revisions"][-1]["file"]))
            account = {
                name: record["accounting"][name]
                for name in ("read", "counted", "duplicate", "late", "pending")
            }
            found[record["epoch"]] = (table["support"].to_pylist(), account)
            _check_slices(Path(config.output, record["slices"][0]["path"]), record["epoch"], table)
    return found


def _check_slices(path: Path, epoch: int, whole: Any) -> None:
    """All reports of an epoch are of one arm; a revision may have come since the accounting was read."""
    table = pq.read_table(path)
    for arm in (None, *ARMS):
        chosen = [label == arm for label in table["slice_arm"].to_pylist()]
        some = table.filter(chosen)
        if some["revision"][0] == whole["revision"][0]:
            same = arm in (None, _arm(epoch))
            assert some["support"].to_pylist() == [n * same for n in whole["support"].to_pylist()]


class Published:
    """What a job has published, looked at again and again: a revision stays, others come after it."""

    def __init__(self, config: Config) -> None:
        """Nothing was seen yet."""
        self._config = config
        self._seen: dict[int, dict[int, str]] = {}

    def look(self) -> Counts:
        """The outcome as it is now."""
        for path in sorted(Path(self._config.output, "accounting").glob("*-epoch-*.json")):
            record = json.loads(path.read_text())
            now = {int(each["revision"]): str(each["sha256"]) for each in record["revisions"]}
            before = self._seen.get(record["epoch"], {})
            assert before.items() <= now.items(), f"epoch {record['epoch']} had {before}, has {now}"
            self._seen[record["epoch"]] = now
        return outcome(self._config)


def live(output: Path) -> Config:
    """For a source that goes on, gives 20 messages at a time and takes some 20 s over all."""
    return Config(str(output), blocks=1500, late=17)


def arriving(pipeline: beam.Pipeline, config: Config) -> beam.PCollection[bytes]:
    """Messages, each at the time of its arrival, from a splittable source with its watermark behind it."""
    return (
        pipeline
        | "Start" >> beam.Create([config.blocks], reshuffle=False)
        | "Range" >> beam.ParDo(_ReadRange(config)).with_output_types(int)
        | "Spread" >> beam.Reshuffle()
        | "Message" >> beam.Map(lambda number: slowly(config, number)).with_output_types(bytes)
    )


def slowly(config: Config, number: int) -> bytes:
    time.sleep(PAUSE)
    return message(config, number)


class _Restrictions(RestrictionProvider):
    """Messages from 0 on; the element is their number."""

    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element + 1)  # the last is never claimed

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return restriction.size()


_TRACKER = beam.DoFn.RestrictionParam(_Restrictions())
_ESTIMATOR = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class _ReadRange(beam.DoFn):
    """A few numbers at a time, then the rest is handed back to the runner, as a live source does."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]  # Beam is read without types
    def process(
        self, element: int, tracker: Any = _TRACKER, estimator: Any = _ESTIMATOR
    ) -> Iterator[TimestampedValue]:
        config = self._config
        number = tracker.current_restriction().start
        stop = number + 20
        while number < min(stop, config.blocks) and tracker.try_claim(number):
            time.sleep(PAUSE)
            yield TimestampedValue(number, config.arrival(number))
            self._advance(estimator, config.arrival(number))
            number += 1
        if number == config.blocks:
            # Like a live source that has nothing new: time goes on, and the source never ends. At the
            # end of a bounded one the watermark leaps to infinity, and what is still on its way could
            # set no timer that fires.
            self._advance(estimator, max(estimator.current_watermark(), config.arrival(number)) + 1)
        tracker.defer_remainder(Duration(micros=100_000))

    @staticmethod
    def _advance(estimator: Any, to: Timestamp) -> None:
        current = estimator.current_watermark()
        estimator.set_watermark(to if current is None else max(current, to))
