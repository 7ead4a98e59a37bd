"""The result page in Chromium: charts drawn, no console message, an epoch chosen, sorted and filtered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import ldpbeam
from ldpbeam.report_page.document import write_page
from tests.browser.devtools import browser
from tests.ldpbeam.cli.sliced import run_of
from tests.ldpbeam.report_page.synthetic import Fake, write_run

pytestmark = pytest.mark.browser


def looked_at(page: Path, profile: Path, expression: str, width: int = 1280) -> tuple[Any, list[str]]:
    """What an expression comes to in a page, and all that the page caused in the console."""

    async def visited() -> tuple[Any, list[str]]:
        async with browser(profile) as chromium, chromium.visitor() as visitor:
            async with visitor.page(page.as_uri(), width) as opened:
                found = await opened.value(expression)
            return json.loads(found), chromium.console

    return asyncio.run(visited())


CHARTS = """(async () => {
  for (const place of document.querySelectorAll(".explorer"))
    while (place.hidden) await new Promise((done) => setTimeout(done, 20));
  const shown = [...document.querySelectorAll("svg.chart")].filter(
    (chart) => chart.getBoundingClientRect().width > 100);
  const mark = shown[0].querySelector("[data-says]");
  mark.dispatchEvent(new PointerEvent("pointermove", {bubbles: true}));
  const tip = document.getElementById("tip");
  return JSON.stringify({
    title: document.title,
    charts: shown.length,
    least: Math.min(...shown.map((chart) => chart.getBoundingClientRect().width)),
    marks: shown.map((chart) => chart.querySelectorAll("path, line, text").length),
    overflow: document.documentElement.scrollWidth - innerWidth,
    tip: tip.hidden ? "" : tip.textContent,
    closed: document.querySelectorAll("details:not([open])").length,
  });
})()"""


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


@pytest.mark.parametrize("width", [1280, 420])
def test_charts_are_drawn_and_nothing_is_wider_than_the_window(
    page: Path, tmp_path: Path, width: int
) -> None:
    found, console = looked_at(page, tmp_path / "profile", CHARTS, width)
    assert console == []
    assert found["charts"] == page.read_text("utf-8").count('class="chart"') > 15
    assert found["least"] >= (300 if width < 500 else 320)  # letters can be read
    assert min(found["marks"]) > 5
    assert found["overflow"] <= 0
    assert found["tip"].startswith("epoch 0 (2026-01-01 00:00): ")
    assert found["closed"] >= 10


def test_a_script_that_got_into_the_page_would_not_run(page: Path, tmp_path: Path) -> None:
    script = "<script>document.title = 'taken over'</script></body>"
    page.write_text(page.read_text("utf-8").replace("</body>", script), "utf-8")
    found, console = looked_at(page, tmp_path / "profile", CHARTS)
    assert found["title"] != "taken over"
    assert any("Content Security Policy" in line for line in console)


USE = """(async () => {
  const place = document.querySelector(".explorer");
  while (place.hidden) await new Promise((done) => setTimeout(done, 20));
  const shown = () => [...place.querySelectorAll("tbody tr")].map((row) =>
    [...row.querySelectorAll("td")].slice(0, 3).map((cell) => cell.textContent));
  const found = { first: shown(), said: place.querySelector("[role=status]").textContent };
  const select = place.querySelector("select"), filter = place.querySelector("input");
  select.value = "2";
  select.dispatchEvent(new Event("change"));
  found.third = shown();
  place.querySelectorAll("thead button")[0].click();
  found.byValue = shown();
  filter.value = "APP B";
  filter.dispatchEvent(new Event("input"));
  found.filtered = shown();
  found.paper = getComputedStyle(document.body).backgroundColor;
  return JSON.stringify(found);
})()"""


def test_any_epoch_can_be_chosen_sorted_and_filtered(tmp_path: Path) -> None:
    labels = ["app a", "app b", "-2+app b", 'app b "x", <b>y</b>']
    output, truth = write_run(tmp_path, [Fake(k=4, epochs=4, labels=labels, insufficient=(1,))])
    found, _ = looked_at(write_page(output, tmp_path / "page.html", truth), tmp_path / "profile", USE)
    assert found["said"].startswith("Epoch 3 (2026-01-01 18:00): ")
    for listed in ("first", "third"):
        shares = [float(row[2].removesuffix(" %")) for row in found[listed]]
        assert shares == sorted(shares, reverse=True)
        assert {row[1] for row in found[listed]} == set(labels)
    assert found["first"] != found["third"]
    assert [row[0] for row in found["byValue"]] == ["0", "1", "2", "3"]
    assert [row[1] for row in found["filtered"]] == labels[1:]
    assert found["paper"] == "rgb(255, 255, 255)"


CHOOSE = """(async () => {
  const place = document.querySelector(".explorer");
  while (place.hidden) await new Promise((done) => setTimeout(done, 20));
  const [slice, epoch] = place.querySelectorAll("select");
  const shown = () => ({ slice: slice.value, epochs: epoch.options.length,
    cells: [...place.querySelectorAll("tbody td:nth-child(3)")].map((cell) => cell.textContent).sort() });
  const found = [shown()];
  for (const name of ["arm=b", "all devices"]) {
    slice.value = name;
    slice.dispatchEvent(new Event("change"));
    found.push(shown());
  }
  return JSON.stringify(found);
})()"""


def test_a_slice_can_be_chosen(tmp_path: Path) -> None:
    definition = (
        "name: c\ndomain: {labels: [x, y]}\nprotocol: grr\nepsilon: 3\nslices: {arm: [a, b]}\n"
        "epoch: {length: 1d, origin: 2026-01-01T00:00:00Z, count: 9}\n"
    )
    held, slices = [0, 1] * 200, [(("arm", arm),) for arm in "aabb" * 100]
    results = run_of(tmp_path, definition, [(held, slices)] * 2)
    found, console = looked_at(write_page(results, tmp_path / "page.html"), tmp_path / "profile", CHOOSE)
    assert console == []
    whole, one, again = found
    assert (whole["slice"], whole["epochs"], one["epochs"]) == ("all devices", 2, 1)
    rows = [row for row in ldpbeam.read(results, slice={"arm": "b"}).to_pylist() if row["epoch"] == 1]
    assert one["cells"] == sorted(f"{100 * row['estimate']:.1f} %" for row in rows)
    assert again == whole and whole["cells"] != one["cells"]
