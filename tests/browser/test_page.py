"""The choice of an epoch on the result page, in Chromium: chosen, sorted and filtered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ldpbeam.report_page.document import write_page
from tests.browser.devtools import browser
from tests.ldpbeam.report_page.synthetic import Fake, write_run

pytestmark = pytest.mark.browser

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
    page = write_page(output, tmp_path / "page.html", truth)

    async def used() -> str:
        async with browser(tmp_path / "profile") as chromium, chromium.visitor() as visitor:
            return str(await visitor.evaluate(page.as_uri(), USE))

    found = json.loads(asyncio.run(used()))
    assert found["said"].startswith("Epoch 3 (2026-01-01 18:00): ")
    for listed in ("first", "third"):
        shares = [float(row[2].removesuffix(" %")) for row in found[listed]]
        assert shares == sorted(shares, reverse=True)
        assert {row[1] for row in found[listed]} == set(labels)
    assert found["first"] != found["third"]
    assert [row[0] for row in found["byValue"]] == ["0", "1", "2", "3"]
    assert [row[1] for row in found["filtered"]] == labels[1:]
    assert found["paper"] == "rgb(255, 255, 255)"
