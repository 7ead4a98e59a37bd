"""Distributions of a stream are those of a run over the same reports, bit for bit: rows and summaries.

The limits of a distribution come out of many thousand additions of floating-point numbers. So they are the
same only where the counts behind them are: whatever came in which message, before or after the end of its
epoch, and whichever engine took it.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.collection.collection import Collection
from tests.ldpbeam.engine.test_engine import HOUR, Bench
from tests.pipelines.running import execute, with_duplicates, write

DEVICES, EPOCHS = 400, 2
LEVELS = {"olh": "epsilon: 1.0", "loloha": "epsilon_longitudinal: 2.0\nepsilon_first: 1.0"}
YAML = """\
name: {protocol}
domain: {{range: {{max: 240, buckets: 60}}}}
protocol: {protocol}
hash_family: interval
{levels}
epoch: {{length: 1h, origin: 1970-01-01T00:00:00Z, count: 100}}
allowed_lateness: 30m
min_reports: 100
"""
COLLECTIONS = [
    ldpbeam.parse_collection(YAML.format(protocol=name, levels=levels)) for name, levels in LEVELS.items()
]
Revision = tuple[str, str]
"""The rows of an epoch, and its summaries, without the number of the revision and the pane."""


@cache
def sent(agreed: Collection) -> list[ReportColumns]:
    """Reports of two epochs, by epoch; some come twice, as they were and with another payload."""
    crowd, draw = ldpbeam.Fleet(agreed, devices=DEVICES, seed=3), np.random.default_rng(3)
    values = (np.minimum(draw.gamma(2, 30 + 20 * epoch, DEVICES), 239) for epoch in range(EPOCHS))
    return with_duplicates([crowd.report(some.tolist()) for some in values])


def cut(batches: list[ReportColumns], size: int) -> list[bytes]:
    return [
        batch_message(
            ReportColumns(one.digest, one.epoch, one.report_ids[begin:end], one.payloads[begin:end])
        )
        for one in batches
        for begin in range(0, len(one.report_ids), size)
        for end in [begin + size]
    ]


def published(output: Path) -> dict[tuple[str, int], Revision]:
    """The newest revision of every epoch; a number is written so that reading it gives its bits."""
    found: dict[tuple[str, int], Revision] = {}
    for path in sorted((output / "latest").iterdir()):
        rows, summaries = (pq.read_table(place) for place in (path, output / "summaries" / path.name))
        assert rows["revision"][0] == summaries["revision"][0]
        assert rows["pane"][0] == summaries["pane"][0]
        key = rows["digest"][0].as_py(), rows["epoch"][0].as_py()
        found[key] = plain(rows), plain(summaries)
    return found


def plain(table: Any) -> str:
    return repr(table.drop_columns(["revision", "pane"]).to_pylist())


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Revision]:
    """What a run over files publishes."""
    folder = tmp_path_factory.mktemp("batch")
    for agreed in COLLECTIONS:
        write(folder / "in", agreed, sent(agreed), prefix=f"{agreed.name}-")
    done = execute(COLLECTIONS, folder / "in", folder / "out")
    assert all(table["cumulative"].null_count == 0 for table in done.tables().values())
    found = published(done.output)
    assert len(found) == len(COLLECTIONS) * EPOCHS
    return found


def test_a_stream_publishes_the_distributions_of_a_run_over_files(
    batch: dict[tuple[str, int], Revision], tmp_path: Path
) -> None:
    """In messages of any size and order, some after the end of their epoch, through a death and a restart."""
    order, size, landed = 1, 50, 5
    bench = Bench(tmp_path, *COLLECTIONS, land_messages=landed, early_every=900)
    messages = {
        epoch: cut([one for agreed in COLLECTIONS for one in sent(agreed) if one.epoch == epoch], size)
        for epoch in range(EPOCHS)
    }
    for some in messages.values():
        random.Random(order).shuffle(some)
    late = {epoch: some[: len(some) // 4] for epoch, some in messages.items()}
    for epoch in range(EPOCHS):
        in_time = messages[epoch][len(late[epoch]) :]
        bench.clock.now = max(bench.clock.now, epoch * HOUR + 60.0)
        for number, message in enumerate(in_time):
            bench.broker.publish(message)
            if number == len(in_time) // 2:
                bench.step(3)
                bench.until((epoch + 0.5) * HOUR)
                bench.start(*COLLECTIONS)  # killed: what it had drawn comes again
                bench.broker.redeliver()
        bench.step(len(in_time) // landed + 2)
        bench.until((epoch + 1) * HOUR + 3)
        before = published(tmp_path)
        assert all(before[one.digest_hex, epoch] != batch[one.digest_hex, epoch] for one in COLLECTIONS)
        for message in late[epoch]:
            bench.broker.publish(message)
        if epoch == 0:
            bench.stop()
            bench.start(*COLLECTIONS)
        bench.step(len(late[epoch]) // landed + 2)
        bench.until((epoch + 1) * HOUR + 1803)
        # After the close: counted as late, and in no result.
        bench.broker.publish(batch_message(unseen(epoch)))
        bench.step(2)
    record = bench.stop()
    assert published(tmp_path) == batch
    for agreed in COLLECTIONS:
        for epoch in range(EPOCHS):
            books = bench.books(epoch, agreed)
            panes = [revision["pane"] for revision in books["revisions"]]
            assert {"early", "on_time", "late"} <= set(panes)
            assert books["accounting"]["late"] == (1 if agreed is COLLECTIONS[0] else 0)
            assert books["summaries"] in record["files"]


def unseen(epoch: int) -> ReportColumns:
    """A report that nobody has sent before."""
    agreed = COLLECTIONS[0]
    one = next(batch for batch in sent(agreed) if batch.epoch == epoch)
    return ReportColumns(one.digest, epoch, one.report_ids[:1] ^ np.uint64(1), one.payloads[:1])
