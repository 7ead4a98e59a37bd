"""docs/beam.md: every block of Python runs, in order, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import ldpbeam
from ldpbeam.simulators.deliver.files import write_reports
from tests.conftest import REPOSITORY
from tests.narrow import present

PAGE = REPOSITORY / "docs" / "beam.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def as_pattern(printed: str) -> str:
    """The text, in which … stands for anything."""
    return ".*".join(map(re.escape, printed.split("…")))


@pytest.mark.timeout(600)
def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one interpreter, as a person would type the blocks; the order of lines is Beam's."""
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python") >= 8
    names: dict[str, Any] = {"__name__": "__main__"}
    for source, printed in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(source, PAGE.name, "exec"), names)
        found = out.getvalue()
        lines = [found, printed]
        if "…" not in printed:
            lines = ["\n".join(sorted(each.splitlines())) for each in lines]
        assert re.fullmatch(as_pattern(lines[1]), lines[0], re.DOTALL), (source, found)
    assert len(list(tmp_path.glob("frequencies*.parquet"))) == 1
    assert len(list(tmp_path.glob("frequencies*.jsonl"))) == 1


def test_the_first_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a demonstration's folder, with fewer devices."""
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    assert readme.index("make demo") < readme.index("```python") < readme.index("make test")
    source = BLOCK.findall(readme)[0][0]
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 10
    agreed = ldpbeam.load_collection(REPOSITORY / "ldpbeam" / "cli" / "demo.yaml")
    reports = ldpbeam.simulate(agreed, list(present(present(agreed.domain).labels)) * 60)
    folder = tmp_path / "demo-output"
    (folder / "reports").mkdir(parents=True)
    shutil.copy(REPOSITORY / "ldpbeam" / "cli" / "demo.yaml", folder / "collection.yaml")
    write_reports("batch", folder / "reports" / "epoch-000000.pb", [reports])
    monkeypatch.chdir(tmp_path)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "README.md", "exec"), {"__name__": "__main__"})
    wanted = ldpbeam.estimate(agreed, reports).to_pylist()
    columns = ("epoch", "label", "estimate", "ci_low", "ci_high")
    assert out.getvalue().splitlines() == [" ".join(str(row[name]) for name in columns) for row in wanted]


def test_the_first_block_takes_ten_lines() -> None:
    first = BLOCK.findall(PAGE.read_text("utf-8"))[0][0]
    assert sum(bool(line.strip()) for line in first.splitlines()) <= 10


def test_names_of_the_page_are_public() -> None:
    """And all public transforms are on it."""
    import ldpbeam.transforms

    text = PAGE.read_text("utf-8")
    imported = set(re.findall(r"\w+", " ".join(re.findall(r"from ldpbeam.transforms import (.*)", text))))
    assert imported <= set(ldpbeam.transforms.__all__)
    for name in ldpbeam.transforms.__all__:
        assert name in text or name == "Results", name
