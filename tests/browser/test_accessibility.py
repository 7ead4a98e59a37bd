"""The report page for everybody: axe-core finds nothing against WCAG 2.2 AA, and a keyboard is enough."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ldpbeam.report_page.document import write_page
from tests.browser.devtools import Page, browser
from tests.conftest import REPOSITORY
from tests.ldpbeam.report_page.synthetic import ONE_ROUND, Fake, write_run

pytestmark = pytest.mark.browser

AXE = REPOSITORY / "tests" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]
VIEWS: dict[str, dict[str, Any]] = {
    "narrow": {"width": 420},
    "wide": {"width": 1280},
    "narrow and dark": {"width": 420, "scheme": "dark"},
    "wide and dark": {"width": 1280, "scheme": "dark"},
    "print": {"width": 1280, "media": "print"},
    "print from a dark screen": {"width": 1280, "media": "print", "scheme": "dark"},
}
READY = """(async () => {
  for (const place of document.querySelectorAll(".explorer"))
    while (place.hidden) await new Promise((done) => setTimeout(done, 20));
  for (const each of document.querySelectorAll("details")) each.open = true;
})()"""
JUDGE = f"""axe.run(document, {{
  runOnly: {json.dumps(TAGS)}, rules: {{ "target-size": {{ enabled: true }} }},
  resultTypes: ["violations", "incomplete"],
}}).then((found) => JSON.stringify(found))"""


PALE = """(() => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => rgb.slice(0, 3)
    .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = parse(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return matchMedia("screen and (prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  const pale = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.matches("script, style, [hidden] *") || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const [ink, paper] = [parse(element.ownerSVGElement ? style.fill : style.color), behind(element)];
    const [high, low] = [light(ink), light(paper)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) pale.add(`pale: ${element.tagName}, ${ink} on ${paper}: ${ratio}`);
  }
  return JSON.stringify([...pale]);
})()"""
"""Contrast of every text, also of those in charts: axe leaves them undecided, since a chart is a picture."""


def page_of(folder: Path, **more: Any) -> str:
    """A page with all that a page can have: several collections, labels, truth, tables, gaps."""
    labels = [
        "app a",
        "app b",
        "-2+app b",
        'app b "x", <b>y</b>',
        "عربي",
        "a label much longer than the others",
    ]
    fakes = [
        Fake(name="labelled", digest="1" * 16, k=6, epochs=12, labels=labels, insufficient=(3,)),
        Fake(name="wide", digest="2" * 16, k=40, epochs=30, n=4000),
        Fake(name="once", digest="3" * 16, k=12, epochs=1, guarantee=ONE_ROUND),
    ]
    output, truth = write_run(folder, fakes, **more)
    return write_page(output, folder / "page.html", truth).as_uri()


async def judged(page: Page) -> dict[str, Any]:
    await page.value(READY)
    await page.value(AXE.read_text("utf-8") + "; 0")
    return dict(json.loads(await page.value(JUDGE)))


def named(found: dict[str, Any], kind: str) -> list[str]:
    """One line for each element of each finding."""
    return sorted(
        f"{rule['id']}: {' '.join(map(str, node['target']))}: {node.get('failureSummary', '')[:300]}"
        for rule in found[kind]
        for node in rule["nodes"]
    )


@pytest.mark.parametrize("more", [{}, {"unbalanced": 7}], ids=["sound", "alarm"])
def test_axe_finds_nothing(more: dict[str, Any], tmp_path: Path) -> None:
    url = page_of(tmp_path, **more)

    async def all_views() -> dict[str, list[str]]:
        async with browser(tmp_path / "profile") as chromium, chromium.visitor() as visitor:
            found = {}
            for name, view in VIEWS.items():
                async with visitor.page(url, **view) as page:
                    report = await judged(page)
                    found[name] = named(report, "violations")
                    other = [rule["id"] for rule in report["incomplete"] if rule["id"] != "color-contrast"]
                    found[name] += [f"not decided: {rule}" for rule in other]
                    found[name] += json.loads(await page.value(PALE))
            return found

    assert {name: lines for name, lines in asyncio.run(all_views()).items() if lines} == {}


FOCUSED = """(() => {
  const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
  const all = [...document.querySelectorAll("a[href], summary, select, input, button, [tabindex='0']")];
  const shown = all.filter((each) => each.checkVisibility());
  return JSON.stringify({
    place: shown.indexOf(one), of: shown.length, tag: one.tagName,
    label: one.ariaLabel || one.textContent.trim() || one.labels?.[0]?.textContent.trim() || "",
    ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
    seen: box.bottom > 0 && box.top < innerHeight,
  });
})()"""


async def focused(page: Page) -> dict[str, Any]:
    return dict(json.loads(await page.value(FOCUSED)))


@pytest.mark.parametrize("view", ["narrow", "wide and dark"])
def test_a_keyboard_reaches_and_uses_everything(view: str, tmp_path: Path) -> None:
    """Tab goes through all in the order of the page; what it reaches has a ring and is in sight."""
    url = page_of(tmp_path)

    async def walked() -> None:
        async with (
            browser(tmp_path / "profile") as chromium,
            chromium.visitor() as visitor,
            visitor.page(url, **VIEWS[view]) as page,
        ):
            await page.value(READY.replace("each.open = true", "each.open = false"))
            await page.press("Tab")
            first = await focused(page)
            assert first["place"] == 0
            sorted_by: set[str] = set()
            opened, moved = 0, None
            for place in range(first["of"]):
                at = await focused(page)
                assert (at["place"], at["ring"], at["seen"]) == (place, True, True), at
                assert at["label"], at
                if at["tag"] == "SUMMARY" and opened == 0:
                    await page.press("Enter")
                    opened += await page.value("document.activeElement.parentElement.open")
                    await page.press("Enter")
                if at["tag"] == "BUTTON":
                    await page.press("Enter")
                    order = "document.activeElement.closest('th')?.ariaSort || ''"
                    sorted_by.add(await page.value(order))
                if moved is None and await page.value("document.activeElement.matches('.drawn')"):
                    await page.press("ArrowRight")
                    await asyncio.sleep(0.5)  # it moves smoothly
                    moved = await page.value("document.activeElement.scrollLeft")
                await page.press("Tab")
            assert opened == 1
            assert {"ascending", "descending"} & sorted_by
            assert moved is not None
            assert (moved > 0) is (view == "narrow")

    asyncio.run(walked())


@pytest.mark.parametrize(
    ("harm", "seen"),
    [
        ("document.querySelector('figcaption').style.color = '#999'", "color-contrast"),
        ("document.querySelector('svg.chart text').setAttribute('fill', '#aaaaaa')", "pale"),
    ],
)  # fmt: skip
def test_harm_is_seen(harm: str, seen: str, tmp_path: Path) -> None:
    url = page_of(tmp_path)

    async def lines() -> list[str]:
        async with (
            browser(tmp_path / "profile") as chromium,
            chromium.visitor() as visitor,
            visitor.page(url, **VIEWS["narrow"]) as page,
        ):
            await page.value(READY)
            await page.value(f"{harm}; 0")
            return named(await judged(page), "violations") + json.loads(await page.value(PALE))

    assert any(line.startswith(seen) for line in asyncio.run(lines()))
