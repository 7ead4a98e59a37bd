"""The public transforms over unbounded input: revisions, accounts that balance, and somebody's own
windows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

import ldpbeam
from ldpbeam.admission import ReportColumns, batch_message
from ldpbeam.errors import UsageError
from ldpbeam.tables import CUMULATIVE
from ldpbeam.transforms import (
    AdmitReports,
    CountSupport,
    EstimateFrequencies,
    FrequenciesPerEpoch,
    RejectedRow,
    WindowByEpoch,
    as_dict,
)
from tests.pipelines.running import fleet
from tests.transforms.public import HOURS, JUNK, elements, in_order, keep, kept, newest, pending

HOUR = 3600
CLOSE = 3 * HOUR
"""Of epoch 0: its end, and two hours of allowed lateness."""
(FIRST,) = fleet(HOURS, 100, 1)
FUTURE = fleet(HOURS, 60, 4)[-1]


def part(batch: ReportColumns, begin: int, end: int) -> bytes:
    some = slice(begin, end)
    return batch_message(
        ReportColumns(batch.digest, batch.epoch, batch.report_ids[some], batch.payloads[some])
    )


def at(seconds: float, *messages: Any) -> list[Any]:
    return [TimestampedValue(message, Timestamp(seconds)) for message in messages]


def stream(*steps: tuple[float, list[Any]]) -> TestStream:
    made = TestStream()
    for watermark, messages in steps:
        made.advance_watermark_to(Timestamp(watermark))
        if messages:
            made.add_elements(messages)
    return made.advance_watermark_to_infinity()


def run(source: TestStream, output: Path, then: Callable[[Any], dict[str, Any]]) -> None:
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner="BundleBasedDirectRunner", options=options) as pipeline:
        for name, found in then(pipeline | source).items():
            keep(found, output / name, name)


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.cases(1)
def test_a_stream_restates_its_epochs_and_its_account_balances(windows: bool, tmp_path: Path) -> None:
    """In time, late, too late, overtaken by the watermark, of the future, again, junk, and of no known
    time."""
    unknown = TimestampedValue(part(FIRST, 90, 100), MIN_TIMESTAMP)
    source = stream(
        (0, [unknown, *at(60, part(FIRST, 0, 40), part(FIRST, 0, 20), *JUNK, part(FUTURE, 0, 50))]),
        (HOUR + 300, at(HOUR + 300, part(FIRST, 40, 60))),
        (CLOSE + 60, at(CLOSE + 60, part(FIRST, 60, 70))),
        # In time when it arrived, and processed when the watermark had passed the close.
        (CLOSE + 7200, at(HOUR + 400, part(FIRST, 70, 90))),
    )

    def counted(messages: Any) -> dict[str, Any]:
        if windows:
            messages = messages | beam.WindowInto(FixedWindows(60))
        return dict((messages | FrequenciesPerEpoch(HOURS, late_every="10m").with_outputs())._asdict())

    run(source, tmp_path, counted)
    rows = kept(tmp_path / "frequencies")
    ends = {row.revision: (row.n, row.pane, when // 10**6, window) for row, when, window in rows}
    assert ends == {
        0: (50, "on_time", HOUR, "GlobalWindow"),
        1: (70, "late", HOUR + 600, "GlobalWindow"),
    }
    counted_reports = [
        ReportColumns(FIRST.digest, 0, FIRST.report_ids[some], FIRST.payloads[some])
        for some in (slice(0, 60), slice(90, 100))
    ]
    wanted = ldpbeam.estimate(HOURS, counted_reports).to_pylist()
    last = in_order(as_dict(row) for row, _, _ in rows if row.revision == 1)
    assert [row["estimate"] for row in last] == [row["estimate"] for row in wanted]
    assert [row["support"] for row in last] == [row["support"] for row in wanted]
    accounts = newest(elements(tmp_path / "accounts"))
    assert accounts[HOURS.digest_hex, 0] == {"read": 120, "counted": 70, "late": 30, "duplicate": 20}
    assert accounts[HOURS.digest_hex, None] == {"read": 50, "rejected.future_epoch": 50}
    assert accounts["", None] == {"read": 2, "rejected.malformed": 2}
    assert {pending(account) for account in accounts.values()} == {0}
    rejected = [RejectedRow(*row) for row in elements(tmp_path / "rejected")]
    assert sorted((row.reason, row.count) for row in rejected) == [
        ("future_epoch", 50),
        ("malformed", 1),
        ("malformed", 1),
    ]


def test_an_epoch_that_closed_without_a_report_counts_none_afterwards(tmp_path: Path) -> None:
    """Nothing was admitted before its close was published; then reports come that the watermark overtook."""
    source = stream(
        (CLOSE + 60, at(CLOSE + 60, part(FIRST, 0, 10))),
        (CLOSE + 7200, at(HOUR + 400, part(FIRST, 70, 90), part(FIRST, 70, 75))),
    )
    run(
        source,
        tmp_path,
        lambda messages: dict((messages | FrequenciesPerEpoch(HOURS).with_outputs())._asdict()),
    )
    assert kept(tmp_path / "frequencies") == []
    assert newest(elements(tmp_path / "accounts")) == {(HOURS.digest_hex, 0): {"read": 35, "late": 35}}


WINDOWS = {
    "trigger": AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
    "accumulation_mode": AccumulationMode.ACCUMULATING,
    "allowed_lateness": 2 * HOUR,
}


@pytest.mark.thorough
def test_own_windows_restate_with_every_pane(tmp_path: Path) -> None:
    source = stream(
        (0, at(60, part(FIRST, 0, 40))),
        (120, at(120, part(FIRST, 0, 10))),
        (HOUR + 60, at(HOUR + 60, part(FIRST, 40, 60))),
    )

    def counted(messages: Any) -> dict[str, Any]:
        admitted = messages | AdmitReports(HOURS)
        support = (
            admitted.admitted | WindowByEpoch(HOURS, **WINDOWS) | beam.CombinePerKey(CountSupport.Fn(HOURS))
        )
        return dict((support | EstimateFrequencies(HOURS))._asdict())

    run(source, tmp_path, counted)
    found = {(row.revision, row.n, row.pane) for row in elements(tmp_path / "frequencies")}
    panes = sorted(found)
    assert [n for _, n, _ in panes] == sorted(n for _, n, _ in panes)
    assert panes[0][1:] == (40, "early")
    assert panes[-1][1:] == (70, "late")
    assert (50, "on_time") in {(n, pane) for _, n, pane in panes}
    accounts = newest(elements(tmp_path / "accounts"))
    assert accounts == {(HOURS.digest_hex, 0): {"read": 70, "counted": 70}}
    assert {window for _, _, window in kept(tmp_path / "frequencies")} == {"IntervalWindow"}


@pytest.mark.parametrize("change", [{"trigger": AfterCount(1)}, {"allowed_lateness": 60}])
def test_panes_that_are_parts_are_refused(change: dict[str, Any]) -> None:
    into = {"accumulation_mode": AccumulationMode.DISCARDING, **change}
    with pytest.raises(UsageError, match=r"DISCARDING.*ACCUMULATING"):
        WindowByEpoch(HOURS, **into)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    keyed = pipeline | beam.Create([]) | beam.WindowInto(FixedWindows(HOUR), **into)
    with pytest.raises(UsageError, match="DISCARDING"):
        _ = keyed | EstimateFrequencies(HOURS)


@pytest.mark.thorough
def test_counting_in_an_own_graph_is_the_count_of_the_driver(tmp_path: Path) -> None:
    messages = [part(FIRST, i, i + 20) for i in range(0, 100, 20)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        admitted = pipeline | beam.Create(messages) | AdmitReports(HOURS)
        windowed = admitted.admitted | WindowByEpoch(HOURS)
        plain = windowed | "Plain" >> beam.CombinePerKey(CountSupport.Fn(HOURS))
        fanned = windowed | "Fan" >> beam.CombinePerKey(CountSupport.Fn(HOURS)).with_hot_key_fanout(4)
        for name, support in (("plain", plain), ("fanned", fanned)):
            keep((support | name >> EstimateFrequencies(HOURS)).frequencies, tmp_path / name, name)
        tables = plain | "Tables" >> EstimateFrequencies(HOURS, form="tables")
        keep(tables.frequencies, tmp_path / "tables", "Tables")
    wanted = ldpbeam.estimate(HOURS, [FIRST])
    rows = [row | dict.fromkeys(CUMULATIVE) | {"slice": {}} for row in wanted.to_pylist()]
    for name in ("plain", "fanned"):
        assert in_order(map(as_dict, elements(tmp_path / name))) == rows
    (table,) = elements(tmp_path / "tables")
    assert table.equals(wanted)
