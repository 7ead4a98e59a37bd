"""Numbers of revisions: given once, before every sink; none ever stands for two contents."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpbeam.accounting import Account
from ldpbeam.collection.collection import Collection
from ldpbeam.histogram import TOO_MANY_ERRORS, EpochHistogram, estimate_epoch
from ldpbeam.support import Support
from ldpbeam.tables import fixed_columns
from ldpbeam.transforms.sinks.accounting import (
    Numbered,
    RevisionNumbers,
    content_digest,
    newest_number,
    numbers_file_name,
    read_epoch_accounting,
)
from ldpbeam.transforms.sinks.bigquery import WriteEstimatesToBigQuery, insert_id
from ldpbeam.transforms.sinks.estimates import WriteEpochs
from ldpbeam.transforms.sinks.topic import estimate_messages
from tests.narrow import present
from tests.pipelines.running import collection

AGREED = collection("grr", 3, "numbered")
FIXED = fixed_columns(AGREED)


def result(epoch: int, content: int, agreed: Collection = AGREED) -> EpochHistogram:
    counts = np.array([content, 2 * content, 7], np.int64)
    found = estimate_epoch(agreed, epoch, Support(counts, int(counts.sum())))
    return replace(found, account=Account(read=found.reports, counted=found.reports))


def numbered(output: Path, job: str, *results: EpochHistogram) -> list[EpochHistogram]:
    step = RevisionNumbers(AGREED, str(output), job)
    return [step.number(each) for each in results]


# --- the rule


def test_numbers_only_grow(tmp_path: Path) -> None:
    """A second job goes on, and so does one that was set back; what was said last has the highest number."""
    for (job, content), expected in [
        (("one", 0), 0),
        (("one", 1), 1),
        (("one", 1), 1),
        (("one", 2), 2),
        (("one", 0), 3),
        (("one", 2), 4),
        (("two", 2), 5),
        (("two", 2), 5),
    ]:
        (found,) = numbered(tmp_path, job, result(3, content))
        assert found.revision == expected
    (other,) = numbered(tmp_path, "one", result(4, 0))
    assert other.revision == 0


def test_numbers_go_on_from_books_without_a_file_of_numbers(tmp_path: Path) -> None:
    write = WriteEpochs(AGREED, str(tmp_path), "job")
    write.setup()
    for each in numbered(tmp_path, "job", result(0, 1), result(0, 2)):
        list(write.process(each))
    (tmp_path / numbers_file_name(AGREED, 0)).unlink()
    assert newest_number(str(tmp_path), AGREED, 0) == Numbered(1, content_digest(AGREED, result(0, 2)), "job")
    assert [one.revision for one in numbered(tmp_path, "job", result(0, 2), result(0, 3))] == [1, 2]


def test_books_alone_have_no_number(tmp_path: Path) -> None:
    bare = EpochHistogram(AGREED.digest, 2, 0, (), account=Account(read=1))
    assert numbered(tmp_path, "job", bare) == [bare]
    assert list(tmp_path.iterdir()) == []
    refused = replace(bare, withheld=TOO_MANY_ERRORS)
    assert [one.revision for one in numbered(tmp_path, "job", result(2, 1), refused)] == [0, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"pane": "late"},
        {"closed": False},
        {"withheld": TOO_MANY_ERRORS},
        {"reports": 99},
        {"account": Account(read=30, counted=29, duplicate=1)},
    ],
)
def test_all_that_a_sink_is_told_is_content(changes: dict[str, Any]) -> None:
    assert content_digest(AGREED, replace(result(0, 1), **changes)) != content_digest(AGREED, result(0, 1))
    assert content_digest(AGREED, result(0, 2)) != content_digest(AGREED, result(0, 1))
    other = replace(AGREED, consistency="norm_mul" if AGREED.consistency != "norm_mul" else "norm_sub")
    assert content_digest(other, result(0, 1)) != content_digest(AGREED, result(0, 1))


# --- any bundling, order and retry


class Sinks:
    def __init__(self, output: Path) -> None:
        self.output = output
        self.messages: dict[str, bytes] = {}
        self.rows: dict[str, str] = {}
        self.files: dict[str, bytes] = {}
        self.newest: dict[int, int] = {}
        self.last: dict[int, list[int]] = {}
        self._rows_of = WriteEstimatesToBigQuery(AGREED, "project:dataset.table")
        self._rows_of.fixed = FIXED

    def take(self, histogram: EpochHistogram) -> None:
        for message in estimate_messages(AGREED, histogram, FIXED, 10**6):
            assert self.messages.setdefault(message.attributes["id"], message.data) == message.data
        for row in self._rows_of._rows_of(histogram):
            text = json.dumps(row, default=str)
            assert self.rows.setdefault(insert_id(row), text) == text
        assert histogram.revision >= self.newest.get(histogram.epoch, 0)
        self.newest[histogram.epoch] = histogram.revision
        self.last[histogram.epoch] = histogram.attributes[0].support.tolist()

    def look(self) -> None:
        for path in self.output.glob("estimates/*.parquet"):
            assert self.files.setdefault(path.name, path.read_bytes()) == path.read_bytes()


def run_bundle(step: Any, write: Any, sinks: Sinks, bundle: list[Any], fused: bool, until: int) -> None:
    held: list[EpochHistogram] = []
    for each in bundle[: until if fused else None]:
        one = step.number(each)
        held.append(one)
        if fused:
            sinks.take(one)
            list(write.process(one))
    if not fused:
        for one in held[:until]:
            sinks.take(one)
        for one in held[: until // 2 if until < len(bundle) else until]:
            list(write.process(one))
    sinks.look()


@settings(max_examples=20, deadline=None)
@given(
    results=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 4)), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 5), min_size=8, max_size=8),
    failures=st.lists(st.integers(0, 5), max_size=5),
    back=st.integers(0, 4),
    fused=st.booleans(),
)
def test_no_sink_sees_two_contents_under_one_number(
    results: list[tuple[int, int]], cuts: list[int], failures: list[int], back: int, fused: bool
) -> None:
    """Bundles are cut anywhere, fail anywhere, come again cut otherwise, after a step back as well."""
    told = [result(*one) for one in results]
    with TemporaryDirectory() as folder:
        step, write = RevisionNumbers(AGREED, folder, "job"), WriteEpochs(AGREED, folder, "job")
        write.setup()
        sinks, at, left, sizes = Sinks(Path(folder)), 0, list(failures), list(cuts)
        while at < len(told):
            bundle = told[at : at + (sizes.pop() if sizes else 2)]
            if left:
                run_bundle(step, write, sinks, bundle, fused, min(left.pop(), len(bundle) - 1))
                at = max(at - back, 0)  # a restore from an older state; sinks keep what they have
                continue
            run_bundle(step, write, sinks, bundle, fused, len(bundle))
            at += len(bundle)
        for epoch, content in dict(results).items():
            books = read_epoch_accounting(folder, AGREED, epoch)
            assert books is not None
            numbers = [revision.number for revision in books.revisions]
            assert numbers == sorted(set(numbers))
            assert numbers[-1] == sinks.newest[epoch]
            newest = pq.read_table(Path(folder, present(books.revisions[-1].table).path))
            wanted = result(epoch, content).attributes[0].support.tolist()
            assert newest.column("support").to_pylist() == sinks.last[epoch] == wanted
