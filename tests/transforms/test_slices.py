"""Slices through the transforms: one epoch, one result, equal rows however reports come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np

import ldpbeam
from ldpbeam.admission import ReportColumns, as_sent, batch_message
from ldpbeam.collection.slices import NO_SLICES, Slices
from ldpbeam.slice_support import with_slices
from ldpbeam.tables import CUMULATIVE
from ldpbeam.transforms import AdmitReports, CountSupport, EstimateFrequencies, FrequenciesPerEpoch, as_dict
from tests.transforms.public import HOURS, elements, keep, newest
from tests.transforms.test_frequencies import RUNS
from tests.transforms.test_streams import CLOSE, HOUR, at, run, stream

SLICED = replace(HOURS, slices=Slices.of({"arm": ["a", "b"], "country": ["DE", "other"]}))
CURVES = replace(RUNS, slices=Slices.of({"arm": ["a", "b"]}))


def sent(agreed: Any, n: int) -> ReportColumns:
    """Reports of epoch 0, each of some slice, a few of no slice and of one that nobody lists."""
    held = np.random.default_rng(2).integers(0, agreed.domain.size, n)
    plain = ldpbeam.simulate(replace(agreed, slices=NO_SLICES), ldpbeam.Index(held))
    known = np.array([*agreed.slice_digests, agreed.digest], np.uint64)
    digests = known[np.random.default_rng(1).integers(0, known.size, len(plain))]
    return ReportColumns(agreed.digest, 0, plain.report_ids, with_slices(plain.payloads, digests))


def messages(agreed: Any, columns: ReportColumns, begin: int, end: int) -> list[bytes]:
    some = replace(columns, report_ids=columns.report_ids[begin:end], payloads=columns.payloads[begin:end])
    return [batch_message(one) for one in as_sent(agreed, some)]


def rows(found: list[Any]) -> list[dict[str, Any]]:
    """The newest revision, in any order that is one."""
    newest_one = max(row.revision for row in found)
    plain = [as_dict(row) for row in found if row.revision == newest_one]
    return sorted(plain, key=lambda row: (sorted(row["slice"].items()), row["value"]))


def wanted(agreed: Any, columns: ReportColumns) -> list[dict[str, Any]]:
    found = []
    for row in ldpbeam.estimate(agreed, columns, by_slice=True).to_pylist():
        labels = {one.name: row.pop(f"slice_{one.name}") for one in agreed.slices.dimensions}
        known = {name: label for name, label in labels.items() if label is not None}
        found.append({**dict.fromkeys(CUMULATIVE), **row, "slice": known})
    return sorted(found, key=lambda row: (sorted(row["slice"].items()), row["value"]))


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert {**one, "pane": "", "revision": 0} == {**other, "pane": "", "revision": 0}


def test_files_of_any_mixture_give_the_rows_of_every_slice(tmp_path: Path) -> None:
    columns = sent(SLICED, 600)
    given = [message for begin in (0, 200, 400) for message in messages(SLICED, columns, begin, begin + 200)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        made = pipeline | beam.Create([*given, *given[:4]]) | FrequenciesPerEpoch(SLICED).with_outputs()
        own = pipeline | "Again" >> beam.Create(given) | "Judge" >> AdmitReports(SLICED)
        counted = own | "Count" >> CountSupport(SLICED, deduplicate=False)
        tables = counted | "Tables" >> EstimateFrequencies(SLICED, form="tables")
        for name, some in {**made._asdict(), "tables": tables.frequencies}.items():
            keep(some, tmp_path / name, name)
    same(rows(elements(tmp_path / "frequencies")), wanted(SLICED, columns))
    (table,) = elements(tmp_path / "tables")
    assert table.equals(ldpbeam.estimate(SLICED, columns, by_slice=True))
    (account,) = newest(elements(tmp_path / "accounts")).values()
    assert account["read"] == account["counted"] + account["duplicate"] > account["counted"] == 600


def test_a_stream_has_one_revision_for_all_slices_of_an_epoch(tmp_path: Path) -> None:
    columns = sent(SLICED, 300)
    source = stream(
        (0, at(60, *messages(SLICED, columns, 0, 150), *messages(SLICED, columns, 0, 20))),
        (HOUR + 300, at(HOUR + 300, *messages(SLICED, columns, 150, 300))),
        (CLOSE + 60, at(CLOSE + 60, *messages(SLICED, columns, 0, 10))),
    )
    run(
        source,
        tmp_path,
        lambda pulled: dict((pulled | FrequenciesPerEpoch(SLICED).with_outputs())._asdict()),
    )
    found = elements(tmp_path / "frequencies")
    assert {row.revision for row in found} == {0, 1}
    same(rows(found), wanted(SLICED, columns))
    assert newest(elements(tmp_path / "accounts")) == {
        (SLICED.digest_hex, 0): {"read": 330, "counted": 300, "duplicate": 20, "late": 10}
    }


def test_distributions_have_summaries_by_slice(tmp_path: Path) -> None:
    columns = sent(CURVES, 400)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        made = (
            pipeline
            | beam.Create(messages(CURVES, columns, 0, 400))
            | FrequenciesPerEpoch(CURVES).with_outputs()
        )
        keep(made.summaries, tmp_path / "summaries", "summaries")
    found = elements(tmp_path / "summaries")
    sizes = {tuple(row.slice.items()): row.n for row in found}
    assert sizes.keys() == {(), (("arm", "a"),), (("arm", "b"),)}
    assert sizes[()] == 400 > sizes[("arm", "a"),] + sizes[("arm", "b"),]
    assert all(row.estimate is not None for row in found)
