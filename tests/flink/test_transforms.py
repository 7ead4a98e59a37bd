"""The public transform in somebody's own pipeline on Flink: a batch, and a stream through a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import ldpbeam
from ldpbeam.admission import ReportColumns
from ldpbeam.tables import CUMULATIVE
from ldpbeam.transforms import AccountRow, FrequenciesPerEpoch, FrequencyRow, as_dict
from ldpbeam.wire import report_pb2
from tests.flink.cluster import Cluster, Worker, until
from tests.flink.stream import Config, arriving, expected, live, message
from tests.flink.test_flink import CHECKPOINTS, on_cluster
from tests.transforms.public import (
    BOTH,
    JUNK,
    MESSAGES,
    counters,
    elements,
    in_order,
    keep,
    newest,
    pending,
    total,
)
from tests.transforms.public import expected as rows_of_the_driver
from tests.waiting import PATIENCE

pytestmark = [
    pytest.mark.flink,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Row = dict[str, Any]


def keep_all(found: Any, folder: Path) -> None:
    """Every output in a file of its own, which pools of workers on this machine append to."""
    folder.mkdir()
    for name, output in found._asdict().items():
        keep(output, folder / name, name)


@pytest.mark.timeout(PATIENCE)
@pytest.mark.slow
def test_a_batch_gives_the_rows_of_the_driver(
    cluster: Cluster, job_endpoint: str, worker: Worker, tmp_path: Path
) -> None:
    """With accounts and rejected rows; Beam's counters say the same."""
    options = PipelineOptions(on_cluster(job_endpoint, worker, "public-batch", streaming=False))
    with beam.Pipeline(options=options) as pipeline:
        sent = pipeline | beam.Create([*MESSAGES, *JUNK])
        keep_all(sent | FrequenciesPerEpoch(BOTH).with_outputs(), tmp_path / "kept")
    kept = tmp_path / "kept"
    assert in_order(map(as_dict, set(elements(kept / "frequencies")))) == rows_of_the_driver()
    accounts = newest(set(elements(kept / "accounts")))
    assert {pending(account) for account in accounts.values()} == {0}
    rejected = {(row.reason, row.count) for row in elements(kept / "rejected")}
    assert rejected == {("malformed", 1)}
    assert accounts["", None] == {"read": len(JUNK), "rejected.malformed": len(JUNK)}
    counted = total(accounts.values())
    found = counters(pipeline.result)
    for what, records in counted.items():
        if what != "counted":
            assert found[f"reports_{what.replace('.', '_')}"] >= records, what
    assert found["results"] >= 5


def reports_of(config: Config) -> list[ReportColumns]:
    """All reports that the messages of a configuration hold."""
    found = []
    for number in range(config.blocks):
        batch = report_pb2.ReportBatch.FromString(message(config, number))
        payloads = np.frombuffer(batch.payloads, np.uint8).reshape(batch.count, -1)
        ids = np.array(batch.report_ids, np.uint64)
        found.append(ReportColumns(batch.digest, batch.epoch, ids, payloads))
    return found


def plain(row: Row) -> Row:
    """What does not depend on how many results an epoch had before."""
    return {name: value for name, value in row.items() if name not in {"revision", "pane"}}


def newest_rows(rows: list[FrequencyRow]) -> list[Row]:
    """Of each value the row with the most reports, and of these the one with the highest revision."""
    found: dict[tuple[int, int], FrequencyRow] = {}
    for row in sorted(rows, key=lambda row: (row.n, row.revision)):
        found[row.epoch, row.value] = row
    return [plain(as_dict(found[key])) for key in sorted(found)]


Accounts = dict[int | None, dict[str, int]]
"""By epoch: records, by what became of them."""


def accounts_of(rows: list[AccountRow]) -> Accounts:
    """Of each number the largest: all of them only grow."""
    found: Accounts = {}
    for row in rows:
        account = found.setdefault(row.epoch, {})
        account[row.what] = max(account.get(row.what, 0), row.records)
    return found


def expected_accounts(config: Config) -> Accounts:
    """By a plain loop."""
    return {
        epoch: {what: records for what, records in account.items() if records}
        for epoch, (_, account) in expected(config).items()
    }


def live_counts(cluster: Cluster, job: str, names: set[str]) -> bool:
    """Whether the page has these counters, and no empty one."""
    found = cluster.live_counters(job)
    return found.keys() >= names and min(found.values()) > 0


@pytest.mark.timeout(4 * PATIENCE)
@pytest.mark.slow
def test_a_stream_goes_on_when_a_task_manager_is_killed(
    cluster: Cluster, job_endpoint: str, worker: Worker, tmp_path: Path
) -> None:
    """Rows and accounts are those of a plain loop, and stay; the counters are on Flink's page."""
    config, kept = live(tmp_path / "out"), tmp_path / "kept"
    rows = ldpbeam.estimate(config.agreed, reports_of(config)).to_pylist()
    wanted = [plain(row | dict.fromkeys(CUMULATIVE)) for row in rows]
    wanted_accounts = expected_accounts(config)
    options = PipelineOptions(on_cluster(job_endpoint, worker, "public-stream", *CHECKPOINTS))
    pipeline = beam.Pipeline(options=options)
    counted = (
        arriving(pipeline, config)
        | FrequenciesPerEpoch(config.agreed, shards=4, late_every="5s").with_outputs()
    )
    keep_all(counted, kept)
    pipeline.run()
    job = cluster.job("public-stream")

    def complete() -> bool:
        rows, accounts = elements(kept / "frequencies"), elements(kept / "accounts")
        return newest_rows(rows) == wanted and accounts_of(accounts) == wanted_accounts

    cluster.goes_on(job, 2)
    assert not complete(), "the job was over before anything was killed"
    cluster.replace_manager(job)
    try:
        until("the rows", complete)
    except TimeoutError:
        pytest.fail(f"{newest_rows(elements(kept / 'frequencies'))}\n{cluster.problems(job)}")
    cluster.goes_on(job, 3)
    assert complete()
    names = {"reports_read", "reports_admitted", "reports_duplicate", "results"}
    until("counters on the page", lambda: live_counts(cluster, job, names))
    cluster.cancel(job)
