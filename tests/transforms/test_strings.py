"""Strings that nobody listed, through the transforms and into the files of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import ldpbeam
from ldpbeam.admission import batch_message
from ldpbeam.epoch_result import result_of_epoch
from ldpbeam.errors import UsageError
from ldpbeam.summaries import summary_table
from ldpbeam.transforms import FrequenciesPerEpoch, as_dict
from ldpbeam.transforms.sinks.accounting import content_digest
from ldpbeam.transforms.sinks.bigquery import WriteEstimatesToBigQuery
from tests.transforms.public import elements, keep
from tests.transforms.test_streams import CLOSE, HOUR, at, part, run, stream

WORDS = ldpbeam.parse_collection("""
name: words
domain: {strings: {max_length: 3, symbols: "abcde"}}
protocol: olh
epsilon: 4
epoch: {length: 1h, origin: 1970-01-01T00:00:00Z}
allowed_lateness: 2h
""")


def test_rows_are_the_strings_found_and_how_they_were_searched(tmp_path: Path) -> None:
    columns = ldpbeam.simulate(WORDS, ["ab", "cde", "a", "not written"] * 500)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        made = pipeline | beam.Create([batch_message(columns)]) | FrequenciesPerEpoch(WORDS).with_outputs()
        keep(made.frequencies, tmp_path / "rows", "rows")
        keep(made.summaries, tmp_path / "summaries", "summaries")
    rows = sorted(elements(tmp_path / "rows"), key=lambda row: row.value)
    wanted = ldpbeam.estimate(WORDS, columns).to_pylist()
    assert {row.label for row in rows} >= {"ab", "cde", "a", "(other)"}
    assert [(row.label, row.support, row.estimate) for row in rows] == [
        (row["label"], row["support"], row["estimate"]) for row in wanted
    ]
    table = summary_table(WORDS, result_of_epoch(WORDS, 0, [columns])).to_pylist()
    found = elements(tmp_path / "summaries")
    assert sorted((row.statistic, row.label, row.estimate) for row in found) == sorted(
        (row["statistic"], row["label"], row["estimate"]) for row in table
    )
    assert table[0]["estimate"] == pytest.approx(1 - sum(row["estimate"] for row in wanted))


def test_the_strings_of_a_revision_follow_the_counts(tmp_path: Path) -> None:
    """Each pane of a stream is bit for bit what the reports until then give in one batch."""
    columns = ldpbeam.simulate(WORDS, ["ab", "cde", "a", "dd", *["e"] * 4] * 250)
    sent = [part(columns, *ends) for ends in ((0, 700), (600, 1200), (1100, 2000))]
    source = stream(
        (0, at(60, sent[0])), (HOUR + 60, at(HOUR + 60, sent[1])), (CLOSE - 60, at(CLOSE - 60, sent[2]))
    )
    run(source, tmp_path, lambda messages: {"rows": messages | FrequenciesPerEpoch(WORDS)})
    found: dict[tuple[int, str], list[Any]] = {}
    for row in elements(tmp_path / "rows"):
        found.setdefault((row.revision, row.pane), []).append(row)
    assert sorted(found) == [(0, "on_time"), (1, "late"), (2, "late")]
    for (revision, _), some in found.items():
        wanted = ldpbeam.estimate(WORDS, ldpbeam.admit(WORDS, sent[: revision + 1])).to_pylist()
        assert len(wanted) > 2
        assert [
            {name: as_dict(row)[name] for name in ("label", "support", "estimate", "ci_low", "n")}
            for row in sorted(some, key=lambda row: row.value)
        ] == [{name: row[name] for name in ("label", "support", "estimate", "ci_low", "n")} for row in wanted]


def test_results_with_the_same_strings_and_other_counts_are_different() -> None:
    """Also where no string is found: only so does a replay publish what changed."""
    some = [ldpbeam.simulate(WORDS, ["a", "b", "c"], seed=seed) for seed in (1, 2)]
    results = [result_of_epoch(WORDS, 0, [columns]) for columns in some]
    assert [result.attributes[0].support.size for result in results] == [0, 0]
    first, second = (content_digest(WORDS, result) for result in results)
    assert first != second
    assert first == content_digest(WORDS, result_of_epoch(WORDS, 0, [some[0]]))


def test_a_table_whose_view_counts_rows_is_refused() -> None:
    with pytest.raises(UsageError, match="find strings, and the view"):
        WriteEstimatesToBigQuery(WORDS, "project:data.table")
