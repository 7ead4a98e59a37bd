"""README.md, and the shorter text that an index shows: figures, pictures, programs and links of theirs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from math import log
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text("utf-8")
DESCRIPTION = (REPOSITORY / "DESCRIPTION.md").read_text("utf-8")
FIGURES = REPOSITORY / "docs" / "figures"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_what_others_add_is_worked_out() -> None:
    """95 % of Laplace noise of scale 1/ε is within ln 20 / ε; a device changes one count, by one."""
    devices, epochs, epsilon = 300_000, 30, 2
    alone = log(20) / epsilon
    shared = log(20) / (epsilon / epochs)
    assert f"±{alone:.1f} devices" in README
    assert f"±{100 * alone / devices:.4f} points" in README
    assert f"±{100 * shared / devices:.3f} with ε = 2 for all 30 days" in README


def test_the_table_has_the_error_of_the_plan() -> None:
    (half_width,) = re.findall(r"ε1 = 1, [^:]*: ±([\d.]+) points", README)
    assert f"| **ldpbeam** | nobody | ±{float(half_width):.2f} points" in README
    assert f"±{float(half_width):.1f} percentage points" in DESCRIPTION


@pytest.mark.parametrize(("text", "number"), [(README, 1), (DESCRIPTION, 0)], ids=["README", "DESCRIPTION"])
def test_the_device_reports(text: str, number: int, tmp_path: Path) -> None:
    """In a process of its own, without what a server needs."""
    demo = REPOSITORY / "ldpbeam" / "cli" / "demo.yaml"
    (tmp_path / "demo-output").mkdir()
    shutil.copy(demo, tmp_path / "demo-output" / "collection.yaml")
    agreed = demo.read_text("utf-8")
    colours = re.sub(r"^slices:.*\n", "", re.sub(r"\bhome\b", "green", agreed), flags=re.MULTILINE)
    (tmp_path / "colours.yaml").write_text(colours)
    # The demonstration's epochs are over; a device reports in one of them.
    code = PYTHON.findall(text)[number].replace('"green")', '"green", epoch=0)')
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nassert 'numpy' not in sys.modules"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "state").is_dir()


def test_the_picture_of_the_parts_can_be_made_again(tmp_path: Path) -> None:
    made = tmp_path / "made.svg"
    script = FIGURES / "make_architecture_figure.py"
    subprocess.run([sys.executable, str(script), str(made)], check=True)
    assert made.read_text("utf-8") == (FIGURES / "architecture.svg").read_text("utf-8")
    ElementTree.fromstring(made.read_text("utf-8"))
    assert "docs/figures/architecture.svg" in README


def test_every_page_is_listed_once() -> None:
    listed = re.findall(
        r"^\| \[([\w-]+)\]", (REPOSITORY / "docs" / "pages.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted({path.stem for path in (REPOSITORY / "docs").glob("*.md")} - {"pages"})
