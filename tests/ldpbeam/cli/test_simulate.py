"""``ldpbeam simulate``: where devices have their slices from."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

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
