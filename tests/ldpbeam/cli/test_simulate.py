"""``ldpbeam simulate``: where devices have their slices from."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import ldpbeam
from ldpbeam.errors import UsageError
from tests.ldpbeam.cli.calling import call, told

COLLECTION = """name: a
domain: {labels: [x, y]}
protocol: grr
epsilon: 1.0
epoch: {length: 1d}
slices: {arm: [a, b], country: [DE, FR]}
"""


def test_slices_are_columns_of_the_file_or_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(COLLECTION, "utf-8")
    Path("p.csv").write_text("v,land,arm\n" + "x,DE,a\ny,FR,b\n" * 50, "utf-8")
    common = ("simulate", "--collection", "c.yaml", "--epochs", 2, "--truth", "--population", "csv:p.csv:v")
    told(*common, "--slice-column", "country=land", "--slice-column", "arm", "--output", "columns")
    truth = [row for row in pq.read_table("columns/truth.parquet").to_pylist() if row["epoch"] == 1]
    counts = {(row["slice_arm"], row["slice_country"], row["label"]): row["count"] for row in truth}
    assert (
        counts["a", "DE", "x"]
        == counts["b", "FR", "y"]
        == counts[None, "FR", "y"]
        == counts["a", None, "x"]
        == 50
    )
    assert counts["a", "DE", "y"] == counts["b", "DE", "x"] == counts["a", "FR", "x"] == 0
    drawn = (*common, "--slice-column", "country=land", "--slice-shares", "arm=b:20%,a:80%")
    said = told(*drawn, "--slice-population", "arm=b:zipf:40", "--output", "drawn")
    assert "equally frequent" not in said
    truth = pq.read_table("drawn/truth.parquet").to_pylist()
    counts = {(row["slice_arm"], row["slice_country"], row["label"]): row["count"] for row in truth}
    assert 8 < counts["b", None, "x"] < 35
    assert counts["b", None, "y"] == 0
    assert counts["a", None, "y"] > 30
    assert "slices.arm: devices draw their labels, which are equally frequent" in told(
        *common, "--slice-column", "country=land", "--output", "equal"
    )
    with pytest.raises(UsageError, match=r"p.csv:2: column 'v': 'x' is no label of slices.arm"):
        told(*common, "--slice-column", "arm=v", "--output", "none")
    for wrong in ("=x", "arm="):
        done = call(*common, "--slice-column", wrong, "--output", "none")
        assert done.exit_code == 2
        assert "--slice-column" in done.output
    assert not Path("none").exists()


STRINGS = """name: words
domain: {strings: {max_length: 4, symbols: lower, fold: true}}
protocol: loloha
epsilon_longitudinal: 4
epsilon_first: 2
epoch: {length: 1d, count: 9}
"""


def test_strings_are_the_texts_of_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a fleet would report them; the truth is of texts as devices write them, and no value is listed."""
    monkeypatch.chdir(tmp_path)
    texts = ["ab", "AB", "(other)", None, "abcde", "z"]
    Path("c.yaml").write_text(STRINGS, "utf-8")
    Path("p.csv").write_text("v,n\n" + "".join(f"{text or ''},1\n" for text in texts), "utf-8")
    common = ("simulate", "--collection", "c.yaml", "--epochs", 2, "--seed", 5, "--truth", "--output", "out")
    done = call(*common, "--population", "csv:p.csv:v", "--format", "parquet")
    assert done.exit_code == 0, done.output
    assert (
        "2 cells that the domain's strings cannot write, the first in line 4: reported as '(other)'"
        in done.output
    )
    assert "distinct values" not in done.output
    truth = pq.read_table("out/truth.parquet").to_pylist()
    assert [(row["epoch"], row["label"], row["count"], row["n"]) for row in truth] == [
        (epoch, label, count, 5) for epoch in (0, 1) for label, count in (("(other)", 2), ("ab", 2), ("z", 1))
    ]
    fleet = ldpbeam.Fleet(ldpbeam.load_collection("c.yaml"), 6, seed=5)
    for epoch in (0, 1):
        sent = pq.read_table(f"out/reports/epoch-{epoch:06d}.parquet")
        made = fleet.report(texts, epoch)
        assert [row["payload"] for row in sent.to_pylist()] == [bytes(one) for one in made.payloads]
    with pytest.raises(UsageError, match="strings have no indices; name a column of texts"):
        told(*common, "--population", "csv:p.csv:index:n")
    with pytest.raises(UsageError, match="nobody lists strings; give csv:FILE:COLUMN"):
        told(*common, "--population", "zipf:1.1", "--devices", 9)
