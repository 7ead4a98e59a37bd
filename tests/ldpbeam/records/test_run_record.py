"""The typed run.json: what is read and written again has the same bytes; what is damaged is no record."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.accounting import Account, Accounting
from ldpbeam.consistency import METHODS
from ldpbeam.durable.document import document
from ldpbeam.errors import UsageError
from ldpbeam.job.config import RunConfig
from ldpbeam.records.collection_record import CollectionRecord, Promises, collection_entry
from ldpbeam.records.outcome import RunOutcome, indicators_record
from ldpbeam.records.run_output import run_record
from ldpbeam.records.run_record import Archived, ClockRecord, RunRecord, StreamRecord, read_record
from ldpbeam.transforms.sinks.estimates import PublishedIndicators
from ldpbeam.transforms.sinks.file_record import FileRecord
from tests.narrow import present
from tests.pipelines.running import collection

ONE = collection("grr", name="one")
CLOCK = ClockRecord("b", 1.5, 2.5, True, False)


def everything() -> RunRecord:
    """A record that has every part, some of which no run has together."""
    key = (ONE.digest_hex, 3)
    entries: list[tuple[tuple[str, int | None], str, int]] = [
        (key, "read", 10),
        (key, "counted", 4),
        (key, "rejected.malformed", 5),
        (key, "late", 1),
    ]
    entries += [(("ff" * 8, 7), "read", 2), (("", None), "read", 3), (("", None), "rejected.malformed", 3)]
    accounting = Accounting.from_entries([((where, what), n) for where, what, n in entries])
    alarm = {
        "indicator": "seeds", "attribute": "", "observed": 3.0, "expected": 1.0, "p_value": 1e-9,
        "alarm": True,
    }  # fmt: skip
    record = run_record(
        RunConfig.parsed((ONE,), files=("a", "b"), output="out"),
        RunOutcome(
            accounting,
            [FileRecord("z", 1, "cd", 2), FileRecord("a", 3, "ab", 4)],
            indicators_record([PublishedIndicators(*key, [alarm])]),
        ),
        2.0,
        archived=Archived(2, 1, Account(read=5, counted=5)),
        status="running",
        stream=StreamRecord("s", "received", 5, 6, 7, 8, CLOCK),
    )
    return replace(record, job={"runner": "R", "id": "1"}, replayed=("rejects-1.parquet",))


def test_a_record_read_and_written_again_has_the_same_bytes() -> None:
    record = everything()
    again = RunRecord.parse(record.content(), "run.json")
    assert again.content() == record.content()
    assert again == replace(record, accounting=again.accounting)  # but for what run.json does not say
    assert again.accounting.archived == Archived(2, 0, Account(read=5, counted=5))
    written = json.loads(record.content())
    assert list(written)[-6:] == ["files", "indicators", "stream", "job", "replayed", "sha256"]
    assert "passed_over" not in written  # a default is not written
    assert [file["path"] for file in written["files"]] == ["a", "z"]


def test_what_a_record_says() -> None:
    """Totals with what is archived, epochs by digest, what withholds one, and the exit code that follows."""
    record = everything()
    assert (record.status, record.exit_code) == ("running", 5)
    assert (record.accounting.total.read, record.accounting.total.counted) == (20, 9)
    first, second = sorted(record.accounting.epochs, key=lambda epoch: epoch.epoch)
    assert (first.collection, first.withheld) == ("one", "too_many_errors")
    assert (second.collection, second.epoch_start, second.withheld) == ("", None, "")
    rest = record.accounting.unattributed
    assert (rest.read, rest.rejected) == (3, {"malformed": 3})
    (alarm,) = record.indicators.alarms if record.indicators else ()
    assert (alarm.digest, alarm.epoch, alarm.indicator) == (ONE.digest_hex, 3, "seeds")
    assert alarm.meaning


def test_an_epoch_is_withheld_above_the_largest_share_of_errors_and_not_at_it() -> None:
    entries = [
        (((ONE.digest_hex, epoch), what), n)
        for epoch, counted in enumerate((3, 2))
        for what, n in (("read", counted + 1), ("counted", counted), ("rejected.malformed", 1))
    ]
    config = RunConfig.parsed((ONE,), files=("a",), output="out", max_error_fraction=0.25)
    record = run_record(config, RunOutcome(Accounting.from_entries(entries), []), 1.0)
    assert [epoch.withheld for epoch in record.accounting.epochs] == ["", "too_many_errors"]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("exit_code", "five"),
        ("exit_code", (1 << 53) + 1),
        ("status", None),
        ("files", [{"path": "a"}]),
        ("accounting", {"total": {}}),
        ("indicators", {"false_alarm_rate": None, "results": 0, "tests": 0, "alarms": []}),
        ("max_error_fraction", True),
    ],
)
def test_a_damaged_part_is_refused(tmp_path: Path, part: str, value: Any) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(document({**everything().as_record(), part: value}))
    with pytest.raises(UsageError, match=r"is not the record of a run, or is damaged.*E-USAGE-RESULTS"):
        read_record(path)


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_promises_is_on_record(method: str) -> None:
    """Of frequencies what the method promises; a mean is brought into its range by all methods but none."""
    domain = replace(present(ONE.domain), ordered=True)
    counted = CollectionRecord.from_record(collection_entry(replace(ONE, domain=domain, consistency=method)))
    assert counted.promises == Promises(METHODS[method].non_negative, METHODS[method].sums_to_one)
    assert not counted.histograms[0].is_mean
    if method == "ordered":
        return  # a mean is one number
    mean = collection("one_bit_mean", name="mean")
    one = CollectionRecord.from_record(collection_entry(replace(mean, consistency=method)))
    assert one.promises == Promises(method != "none", sums_to_one=False)
    assert one.histograms[0].is_mean


@pytest.mark.parametrize(
    ("there", "gaps"),
    [
        ([], []),
        ([4], []),
        ([4, 5, 6], []),
        ([4, 6], [(5, 5)]),
        ([4, 7], []),  # as many are missing as are there
        ([4, 7, 8], [(5, 6)]),
        ([0, 2, 3, 7, 8, 9, 10], [(1, 1), (4, 6)]),
        ([0, 2, 3, 8, 9], []),
    ],
)
def test_epochs_that_fall_out_of_a_row(there: list[int], gaps: list[tuple[int, int]]) -> None:
    """Of each collection by itself; an epoch of which all was refused is missing too."""
    entries = [((ONE.digest_hex, epoch), what) for epoch in there for what in ("read", "counted")]
    if gaps:
        entries += [((ONE.digest_hex, gaps[0][0]), what) for what in ("read", "rejected.malformed")]
    entries += [(("ff" * 8, epoch), what) for epoch in (1, 2) for what in ("read", "counted")]
    accounting = Accounting.from_entries([(entry, 1) for entry in entries])
    record = run_record(RunConfig.parsed((ONE,), files=(), output="out"), RunOutcome(accounting, []), 1.0)
    found = [(gap.digest, gap.first_epoch, gap.last_epoch) for gap in record.accounting.gaps]
    assert found == [(ONE.digest_hex, *gap) for gap in gaps]
    written = json.loads(record.content())["accounting"].get("gaps", [])
    assert [(gap["collection"], gap["first_epoch"]) for gap in written] == [
        ("one", first) for first, _ in gaps
    ]


def test_the_newest_table_of_an_epoch_is_that_of_the_highest_number() -> None:
    stem = "one-0da37abc5df87aa0-epoch-000012"
    paths = [f"estimates/{stem}-r1000.parquet", f"estimates/{stem}-r999.parquet", f"latest/{stem}.parquet"]
    paths += ["rejects/rejects-0da37abc5df87aa0.parquet", f"accounting/{stem}.json"]
    record = replace(everything(), files=tuple(FileRecord(path, 1, "", 1) for path in paths))
    assert record.newest_tables == {stem: paths[0]}


def test_signs_of_forged_reports_are_by_collection_and_epoch() -> None:
    """Whatever order workers wrote them in; a result without indicators was not looked at."""
    first, other = (
        {
            "indicator": name,
            "attribute": "",
            "observed": 3.0,
            "expected": 1.0,
            "p_value": 1e-9,
            "alarm": alarm,
        }
        for name, alarm in (("seeds", True), ("range", False))
    )
    signs = indicators_record(
        [
            PublishedIndicators("b", 1, [first, other]),
            PublishedIndicators("a", 10, [first]),
            PublishedIndicators("a", 3, []),
            PublishedIndicators("a", 9, [other, first]),
        ]
    )
    assert [(one.digest, one.epoch, one.indicator) for one in signs.alarms] == [
        ("a", 9, "seeds"), ("a", 10, "seeds"), ("b", 1, "seeds"),
    ]  # fmt: skip
    assert (signs.results, signs.tests) == (3, 5)
