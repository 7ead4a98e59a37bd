"""latest/ has the newest revision of each epoch at every moment, whatever a job tells again."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ldpbeam.accounting import Account
from ldpbeam.histogram import TOO_MANY_ERRORS, EpochHistogram, estimate_epoch, make_consistent
from ldpbeam.support import Support
from ldpbeam.transforms.sinks.atomic import link, publish
from ldpbeam.transforms.sinks.estimates import WriteEpochs, latest_file_name
from tests.pipelines.running import collection

ONE = collection("grr", name="one")


def result(epoch: int, reports: int, revision: int = 0) -> EpochHistogram:
    counts = np.full(ONE.protocol.counter.counts_length, reports)
    found = make_consistent(ONE, estimate_epoch(ONE, epoch, Support(counts, reports)))
    return replace(found, account=Account(read=reports, counted=reports), revision=revision)


@pytest.fixture
def sink(tmp_path: Path) -> WriteEpochs:
    made = WriteEpochs(ONE, str(tmp_path), "job")
    made.setup()
    return made


def shown(folder: Path) -> dict[int, tuple[int, int]]:
    rows = ds.dataset(folder / "latest").to_table(columns=["epoch", "revision", "n", "value"]).to_pylist()
    assert len({(row["epoch"], row["value"]) for row in rows}) == len(rows)
    return {row["epoch"]: (row["revision"], row["n"]) for row in rows}


def test_what_is_told_again_does_not_come_back(sink: WriteEpochs, tmp_path: Path) -> None:
    for reports, revision in ((5, 0), (9, 1), (11, 2), (5, 0), (9, 1)):
        list(sink.process(result(0, reports, revision)))
    assert shown(tmp_path) == {0: (2, 11)}
    list(sink.process(result(0, 11, 2)))
    assert shown(tmp_path) == {0: (2, 11)}
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_withheld_revision_is_not_shown_and_the_next_one_is(sink: WriteEpochs, tmp_path: Path) -> None:
    list(sink.process(result(0, 5)))
    none: Any = replace(result(0, 6, 1), attributes=(), withheld=TOO_MANY_ERRORS)
    list(sink.process(none))
    assert list((tmp_path / "latest").iterdir()) == []
    list(sink.process(result(0, 9, 2)))
    assert shown(tmp_path) == {0: (2, 9)}


def test_it_is_never_behind_the_books(
    sink: WriteEpochs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each change of the directory: what is shown is whole, and not older than what the books name."""
    list(sink.process(result(0, 5)))
    real, looked = os.replace, []

    def look(old: str, new: str) -> None:
        real(old, new)
        path = tmp_path / latest_file_name(ONE, 0)
        revision = pq.read_table(path)["revision"][0].as_py()
        (books,) = (tmp_path / "accounting").iterdir()
        named = json.loads(books.read_text())["revisions"][-1]["revision"]
        assert revision >= named
        looked.append((revision, named))

    monkeypatch.setattr(os, "replace", look)
    list(sink.process(result(0, 9, 1)))
    assert looked == [(0, 0), (1, 0), (1, 1)]


def test_without_links_it_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(old: str, new: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    publish(str(tmp_path), "a/x", b"content")
    link(str(tmp_path), "b/y", "a/x", b"content")
    assert (tmp_path / "b" / "y").read_bytes() == b"content"
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["x", "y"]
