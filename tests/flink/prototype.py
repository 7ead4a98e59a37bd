"""A toy with the shape of the streaming graph: what it shows of a runner holds for the real one.

Source, admission, key (epoch, shard), a stateful step per shard, a stateful step per epoch, files. Every
record is a block of ids of one epoch; a shard keeps the blocks in a bag, and a timer at the end of the
epoch adds them up. What does not fit the sequence (a block after its epoch was summed) becomes another
revision. The numbers are such that nothing lost or doubled can cancel out: an id counts with a weight of
its own, and ids are sent twice.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder, StrUtf8Coder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

__all__ = ["ToyConfig", "build", "expected", "outcome"]

DOMAIN = 16
LENGTH = 60
"""Seconds of an epoch."""

Key = tuple[int, int]


@dataclass(frozen=True)
class ToyConfig:
    """What the toy reads and where it writes.

    Attributes:
        output: a folder.
        blocks: how many records, each with `ids` ids.
        epochs: over how many epochs they spread, in turn.
        pause: seconds that each record takes.
        source: "create" (an impulse and what follows), or "ranges" (a splittable source that moves the watermark).
        late: every so many blocks, one belongs to the first epoch (0: none).
        together: how many the splittable source gives at a time.
    """

    output: str
    blocks: int = 600
    ids: int = 50
    epochs: int = 6
    shards: int = 4
    pause: float = 0.0
    source: str = "create"
    late: int = 0
    together: int = 50


def block(config: ToyConfig, number: int) -> tuple[int, list[int]]:
    """Epoch and ids of a record; each id is sent twice by neighbours of one epoch."""
    span = -(-config.blocks // config.epochs)
    epoch = 0 if config.late and number % config.late == 0 else number // span
    start = number * config.ids // 2
    return epoch, list(range(start, start + config.ids))


def expected(config: ToyConfig) -> dict[int, list[int]]:
    """Counts per epoch by a plain loop."""
    seen: dict[int, set[int]] = {}
    for number in range(config.blocks):
        epoch, ids = block(config, number)
        seen.setdefault(epoch, set()).update(ids)
    return {epoch: _count(np.array(sorted(ids), np.int64)).tolist() for epoch, ids in sorted(seen.items())}


def _count(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.bincount(ids % DOMAIN, weights=ids + 1, minlength=DOMAIN).astype(np.int64)


def outcome(config: ToyConfig) -> dict[int, list[int]]:
    """Counts per epoch as published: the highest revision counts."""
    found: dict[int, tuple[int, list[int]]] = {}
    for path in Path(config.output).glob("epoch-*.json"):
        record = json.loads(path.read_text())
        found[record["epoch"]] = max(
            found.get(record["epoch"], (-1, [])), (record["revision"], record["counts"])
        )
    return {epoch: counts for epoch, (_, counts) in sorted(found.items())}


def build(pipeline: beam.Pipeline, config: ToyConfig) -> beam.PCollection[str]:
    """The whole graph."""
    numbers = pipeline | "Source" >> _source(config)
    return (
        numbers
        | "Admit" >> beam.ParDo(_Admit(config)).with_output_types(tuple[Key, bytes])
        | "Shard" >> beam.ParDo(_SumShard()).with_output_types(tuple[int, bytes])
        | "Epoch" >> beam.ParDo(_SumEpoch()).with_output_types(str)
        | "Write" >> beam.ParDo(_Write(config.output)).with_output_types(str)
    )


def _source(config: ToyConfig) -> beam.PTransform:
    if config.source == "create":
        return beam.Create(list(range(config.blocks)))
    return _Ranges(config)


class _Ranges(beam.PTransform):
    """A splittable source: each number with the time of its epoch, the watermark behind it."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self._config = config

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[int]:
        return (
            pipeline
            | "Start" >> beam.Create([self._config.blocks], reshuffle=False)
            | "Range" >> beam.ParDo(_ReadRange(self._config)).with_output_types(int)
            | "Spread" >> beam.Reshuffle()
        )


class _Restrictions(RestrictionProvider):
    """Blocks from 0 on; the element is their number."""

    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return restriction.size()


class _ReadRange(beam.DoFn):
    """A few numbers at a time, then the rest is handed back to the runner, as a live source does."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self._config = config

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(_Restrictions()),
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ) -> Iterator[TimestampedValue]:
        number = tracker.current_restriction().start
        stop = number + self._config.together
        while number < stop and tracker.try_claim(number):
            time.sleep(self._config.pause)
            stamp = _end(block(self._config, number)[0]) - Duration(micros=1000)
            yield TimestampedValue(number, stamp)
            # A block out of turn does not hold the watermark back.
            reached = _end(block(self._config, max(number - 1, 0))[0]) - Duration(micros=1000)
            current = estimator.current_watermark()
            estimator.set_watermark(reached if current is None else max(current, reached))
            number += 1
        tracker.defer_remainder()


class _Admit(beam.DoFn):
    """A number to the columns of its block, cut by shard; slow where asked to be."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self._config = config

    def process(self, number: int) -> Iterator[tuple[Key, bytes]]:
        time.sleep(self._config.pause)
        epoch, listed = block(self._config, number)
        ids = np.array(listed, np.int64)
        for shard in range(self._config.shards):
            part = ids[ids // 3 % self._config.shards == shard]
            if part.size:
                yield (epoch, shard), part.tobytes()


def _end(epoch: int) -> Timestamp:
    return Timestamp.of((epoch + 1) * LENGTH)


class _SumShard(beam.DoFn):
    """Blocks of one epoch and shard, kept until the epoch ends, then summed; what comes later is summed again.

    Emits the total so far with a running number, so that the next step keeps the newest of each shard.
    """

    BLOCKS = BagStateSpec("blocks", BytesCoder())
    META = ReadModifyWriteStateSpec("meta", StrUtf8Coder())
    DUE = TimerSpec("due", TimeDomain.WATERMARK)
    FORGET = TimerSpec("forget", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[Key, bytes],
        stamp: Timestamp = beam.DoFn.TimestampParam,
        blocks: Any = beam.DoFn.StateParam(BLOCKS),
        meta: Any = beam.DoFn.StateParam(META),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[tuple[int, bytes]]:
        (epoch, _), columns = element
        blocks.add(columns)
        state = json.loads(meta.read() or '{"pending": 0, "emitted": 0}')
        if not state["pending"]:
            due.set(_end(epoch))
        state["pending"] += 1
        meta.write(json.dumps(state))
        return ()

    @on_timer(DUE)
    def on_due(
        self,
        key: Key = beam.DoFn.KeyParam,
        stamp: Timestamp = beam.DoFn.TimestampParam,
        blocks: Any = beam.DoFn.StateParam(BLOCKS),
        meta: Any = beam.DoFn.StateParam(META),
        forget: Any = beam.DoFn.TimerParam(FORGET),
    ) -> Iterator[tuple[int, bytes]]:
        epoch, shard = key
        state = json.loads(meta.read())
        ids = np.unique(np.concatenate([np.frombuffer(b, np.int64) for b in blocks.read()]))
        blocks.clear()
        blocks.add(ids.tobytes())
        state = {"pending": 0, "emitted": state["emitted"] + 1}
        meta.write(json.dumps(state))
        forget.set(_end(epoch) + 10 * LENGTH)
        record = {
            "shard": shard,
            "number": state["emitted"],
            "counts": _count(ids).tolist(),
            "fired": stamp.micros / 1e6,
        }
        yield epoch, json.dumps(record).encode()

    @on_timer(FORGET)
    def on_forget(
        self,
        blocks: Any = beam.DoFn.StateParam(BLOCKS),
        meta: Any = beam.DoFn.StateParam(META),
    ) -> Iterable[tuple[int, bytes]]:
        # A block that is still waiting for its timer keeps the state.
        if not json.loads(meta.read() or '{"pending": 0}')["pending"]:
            blocks.clear()
            meta.clear()
        return ()


class _SumEpoch(beam.DoFn):
    """The newest total of each shard, added up when the epoch ends and whenever one is restated."""

    PARTS = BagStateSpec("parts", BytesCoder())
    META = ReadModifyWriteStateSpec("meta", StrUtf8Coder())
    DUE = TimerSpec("publish", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[int, bytes],
        stamp: Timestamp = beam.DoFn.TimestampParam,
        parts: Any = beam.DoFn.StateParam(PARTS),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterable[str]:
        epoch, record = element
        parts.add(json.dumps({**json.loads(record), "arrived": stamp.micros / 1e6}).encode())
        due.set(_end(epoch))
        return ()

    @on_timer(DUE)
    def on_due(
        self,
        epoch: int = beam.DoFn.KeyParam,
        stamp: Timestamp = beam.DoFn.TimestampParam,
        parts: Any = beam.DoFn.StateParam(PARTS),
        meta: Any = beam.DoFn.StateParam(META),
    ) -> Iterator[str]:
        newest: dict[int, dict[str, Any]] = {}
        for record in map(json.loads, parts.read()):
            if record["number"] > newest.get(record["shard"], {"number": 0})["number"]:
                newest[record["shard"]] = record
        parts.clear()
        for record in newest.values():
            parts.add(json.dumps(record).encode())
        revision = int(meta.read() or "0")
        meta.write(str(revision + 1))
        yield json.dumps(
            {
                "epoch": epoch,
                "revision": revision,
                "counts": np.sum([r["counts"] for r in newest.values()], axis=0).tolist(),
                "fired": stamp.micros / 1e6,
                "parts": sorted((r["shard"], r["number"], r["fired"], r["arrived"]) for r in newest.values()),
            }
        )


class _Write(beam.DoFn):
    """A file per epoch and revision; writing it twice leaves what writing it once leaves."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self._output = output

    def process(self, line: str) -> Iterator[str]:
        record = json.loads(line)
        path = Path(self._output) / f"epoch-{record['epoch']:03}-{record['revision']:03}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.tmp")
        part.write_text(line)
        part.replace(path)
        yield str(path)
