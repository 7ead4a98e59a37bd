"""The page in Chromium: no console message, charts drawn, nothing wider than the window."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ldpbeam.report_page.document import write_page
from tests.ldpbeam.report_page.synthetic import Fake, write_run
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser

# The background services would look for the network, which a test machine may not have.
FLAGS = (
    "--headless",
    "--no-sandbox",  # refused to root otherwise; the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--v=0",
    "--virtual-time-budget=5000",
    "--dump-dom",
)
MEASURE = """<!doctype html><meta charset="utf-8"><title>measure</title><body>
<iframe srcdoc="{page}" style="width:{width}px;height:4000px;border:0"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {{
  const page = frame.contentDocument, view = frame.contentWindow;
  const shown = [...page.querySelectorAll("svg.chart")].filter(
    (chart) => chart.getBoundingClientRect().width > 100);
  const mark = shown[0].querySelector("[data-says]");
  mark.dispatchEvent(new view.PointerEvent("pointermove", {{bubbles: true}}));
  const tip = page.getElementById("tip");
  document.body.dataset.found = JSON.stringify({{
    charts: shown.length,
    least: Math.min(...shown.map((chart) => chart.getBoundingClientRect().width)),
    marks: shown.map((chart) => chart.querySelectorAll("path, line, text").length),
    overflow: page.documentElement.scrollWidth - view.innerWidth,
    tip: tip.hidden ? "" : tip.textContent,
    closed: page.querySelectorAll("details:not([open])").length,
  }});
}});
</script>"""


def visit(page: Path, profile: Path, width: int = 1280) -> tuple[str, list[str]]:
    """The page's final DOM and every line that it caused in the console."""
    browser = shutil.which("chromium")
    if browser is None:  # a failure, not a skip: who asked for browser tests wants them run
        pytest.fail("chromium is not installed; run `make browser`, which installs it")
    command = [browser, *FLAGS, f"--window-size={width},900", f"--user-data-dir={profile}"]
    done = subprocess.run(
        [*command, page.as_uri()], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    labels = [f"label {i}" for i in range(18)] + ["<script>alert(1)</script>", "</svg><b>"]
    output, truth = write_run(
        tmp_path,
        [
            Fake(k=360, epochs=20, n=200_000),
            Fake(name="</svg>", digest="e" * 16, k=20, labels=labels, epochs=5, insufficient=(4,)),
        ],
    )
    return write_page(output, tmp_path / "page.html", truth)


def test_the_page_loads_without_a_word_in_the_console(page: Path, tmp_path: Path) -> None:
    dom, console = visit(page, tmp_path / "profile")
    assert console == []
    assert len(re.findall(r'<svg [^>]*class="chart', dom)) > 15
    assert dom.count("<script") == 1


@pytest.mark.parametrize("width", [1280, 420])
def test_charts_are_drawn_and_nothing_is_wider_than_the_window(
    page: Path, tmp_path: Path, width: int
) -> None:
    frame = tmp_path / "frame.html"
    frame.write_text(MEASURE.format(page=html.escape(page.read_text("utf-8")), width=width))
    dom, console = visit(frame, tmp_path / "profile", width=1400)
    assert console == []
    match = re.search(r'data-found="([^"]*)"', dom)
    assert match is not None
    found = json.loads(html.unescape(match[1]))
    assert found["charts"] == page.read_text("utf-8").count('class="chart"')
    assert found["least"] >= (300 if width < 500 else 320)  # letters can be read
    assert min(found["marks"]) > 5
    assert found["overflow"] <= 0
    assert found["tip"].startswith("epoch 0 (2026-01-01 00:00): ")
    assert found["closed"] > 10


def test_a_script_that_got_into_the_page_would_not_run(page: Path, tmp_path: Path) -> None:
    script = "<script>document.title = 'taken over'</script></body>"
    page.write_text(page.read_text("utf-8").replace("</body>", script), "utf-8")
    dom, console = visit(page, tmp_path / "profile")
    assert "<title>taken over</title>" not in dom
    assert any("Content Security Policy" in line for line in console)
