"""examples/web/ in Chromium: 200 visitors, the collector, the pipeline, and a histogram that fits."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection
from ldpbeam.support import SupportProbabilities
from tests.browser.devtools import Browser, Visitor, browser
from tests.conftest import FALSE_ALARM_SUITE, REPOSITORY
from tests.narrow import present
from tests.reference.fits import fits
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.timeout(2 * PATIENCE)]

WEB = REPOSITORY / "examples" / "web"
CLIENT = REPOSITORY / "clients" / "js" / "build" / "src"
FILE = WEB / "collection.yaml"
TRUTH = {"light": 150, "dark": 30, "high contrast": 15, "none of these": 5}
"""So uneven that what no correct program gives and what a wrong one gives lie nine standard errors apart."""
FALSE_ALARM = 1e-9
"""Chance that correct programs fail."""
assert FALSE_ALARM <= FALSE_ALARM_SUITE

CLICK = """(async () => {
  const status = document.querySelector("#status"), label = %s;
  const until = async (done) => { while (!done()) await new Promise((wake) => setTimeout(wake, 10)); };
  await until(() => document.querySelector("button") || /E-DEVICE/.test(status.textContent));
  const button = [...document.querySelectorAll("button")].find((one) => one.textContent === label);
  const before = status.textContent;
  status.textContent = "";
  button.click();
  await until(() => status.textContent);
  return status.textContent;
})()"""

SETTLED = """(async () => {
  const status = document.querySelector("#status");
  while (["Loading …", "Choose one."].includes(status.textContent))
    await new Promise((wake) => setTimeout(wake, 10));
  return status.textContent;
})()"""
"""What a page says at last whose visitor has a report that waits; it is not closed while it sends."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    """The address of a web server, until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def site(folder: Path) -> AbstractContextManager[str]:
    """A web server, as ``python -m http.server`` is one."""
    return running(ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))))


@contextmanager
def collector(output: Path, origin: str) -> Iterator[str]:
    """``ldpbeam collect`` as a process; where it takes reports."""
    command = f"{sys.executable} -m ldpbeam collect --listen 127.0.0.1:0 --json".split()
    command += ["--collection", str(FILE), "--output", str(output), "--allow-origin", origin]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        try:
            assert process.stdout is not None
            listening = json.loads(process.stdout.readline())
            yield f"http://{listening['host']}:{listening['port']}/v1/reports"
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0


async def visit(found: Browser, url: str, label: str, again: str | None) -> list[str]:
    async with found.visitor() as visitor:
        said = [await click(visitor, url, label)]
        if again is not None:
            said.append(await click(visitor, url, again))
        return said


async def click(visitor: Visitor, url: str, label: str) -> str:
    return str(await visitor.evaluate(url, CLICK % json.dumps(label)))


async def visits(url: str, profile: Path) -> list[list[str]]:
    """All visitors, four at a time; every twentieth comes back the same day and chooses something else."""
    labels = [label for label, held in TRUTH.items() for _ in range(held)]
    gate = asyncio.Semaphore(4)

    async def one(found: Browser, number: int, label: str) -> list[str]:
        async with gate:
            return await visit(found, url, label, labels[-1 - number] if number % 20 == 0 else None)

    async with browser(profile) as found:
        return await asyncio.gather(*(one(found, *pair) for pair in enumerate(labels)))


def deploy(folder: Path, collector_url: str) -> None:
    """The example and the built client, as a checkout has them."""
    if not (CLIENT / "index.js").is_file():
        pytest.fail("the TypeScript client is not built; run `make js-build`")
    shutil.copytree(WEB, folder / "examples" / "web")
    shutil.copytree(CLIENT, folder / "clients" / "js" / "build" / "src")
    (folder / "examples" / "web" / "config.json").write_text(json.dumps({"collector": collector_url}))


def results(reports: Path, output: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The accounting and the rows of a run over the collector's folder."""
    command = f"{sys.executable} -m ldpbeam run --quiet --collection {FILE} --input {reports}/*.pb".split()
    subprocess.run([*command, "--output", output], check=True, cwd=REPOSITORY)
    total = json.loads((output / "run.json").read_text("utf-8"))["accounting"]["total"]
    return total, ds.dataset(output / "latest").to_table().to_pylist()


def test_choices_of_200_visitors_become_a_histogram(tmp_path: Path) -> None:
    folder, reports = tmp_path / "site", tmp_path / "reports"
    folder.mkdir()
    with site(folder) as origin, collector(reports, origin) as url:
        deploy(folder, url)
        said = asyncio.run(visits(f"{origin}/examples/web/index.html", tmp_path / "profile"))
    assert Counter(line for lines in said for line in lines) == {"Thank you. Sent.": 210}
    total, rows = results(reports, tmp_path / "results")
    # Whoever came back had reported already: nothing more was sent.
    assert (total["read"], total["counted"]) == (200, 200)
    agreed = load_collection(FILE)
    support = {row["label"]: row["support"] for row in rows}
    assert {row["n"] for row in rows} == {200}
    assert fits(support, TRUTH, probabilities(agreed), FALSE_ALARM)
    for row in rows:
        truth = TRUTH[row["label"]] / 200
        # Published intervals are for 95 %; widened to the false-alarm rate they hold the truth.
        assert abs(row["estimate"] - truth) <= 6.5 * row["std_error"]
        assert row["ci_low"] <= row["estimate"] <= row["ci_high"]
    assert sum(row["consistent"] for row in rows) == pytest.approx(1)


def probabilities(agreed: Collection) -> SupportProbabilities:
    return present(agreed.protocol.estimator.support)


def test_a_collector_that_is_away_gets_the_report_later(tmp_path: Path) -> None:
    folder, reports = tmp_path / "site", tmp_path / "reports"
    folder.mkdir()
    with site(folder) as origin:
        deploy(folder, "http://127.0.0.1:9/v1/reports")
        page = f"{origin}/examples/web/index.html"

        async def both() -> list[str]:
            async with browser(tmp_path / "profile") as found, found.visitor() as visitor:
                said = [await click(visitor, page, "dark")]
                with collector(reports, origin) as url:
                    (folder / "examples" / "web" / "config.json").write_text(json.dumps({"collector": url}))
                    # What has failed is tried again with a pause, or by the next visit, as here.
                    while said[-1] != "Thank you. Sent.":
                        said.append(await visitor.evaluate(page, SETTLED))
                return said

        said = asyncio.run(both())
    assert said[0] == "Kept. It will be sent later."
    assert set(said[1:-1]) <= {said[0]}
    total, _ = results(reports, tmp_path / "results")
    assert (total["read"], total["counted"]) == (1, 1)


STATE = """(async () => {
  const { Device, IndexedDbStore } = await import("/clients/js/build/src/index.js");
  const definition = await (await fetch("definition.json")).json();
  const open = async () => Device.open(definition, await IndexedDbStore.open("device"));
  const code = async (act) => { try { await act(); return "none"; } catch (error) { return error.code; } };
  const raw = (use) => new Promise((done) => {
    const request = indexedDB.open("device", 1);
    request.onsuccess = () => {
      const transaction = request.result.transaction("state", "readwrite");
      use(transaction.objectStore("state"));
      transaction.oncomplete = () => { request.result.close(); done(); };
    };
  });
  const four = await Promise.all([0, 1, 2, 3].map(open));
  const reports = await Promise.all(four.map((device, value) => device.report({ index: value }, 5)));
  let kept;
  await raw((objects) => objects.get("state").onsuccess = (found) => kept = found.target.result);
  const found = { reports: reports.map(String), earlier: await code(() => four[0].report({ index: 0 }, 4)) };
  const damaged = kept.slice();
  damaged[60] ^= 1;
  await raw((objects) => objects.put(damaged, "state"));
  found.damaged = [await code(open), await code(() => four[1].report({ index: 0 }, 6))];
  await raw((objects) => objects.put(kept, "state"));
  found.again = String(await four[2].report({ index: 0 }, 5));
  const last = kept.slice();
  last[last.length - 1] ^= 1;
  await raw((objects) => objects.put(last, "state"));
  const { outbox } = four[0];
  found.dropped = [(await outbox.waiting()).length, await outbox.dropped()];
  found.dropped.push(String(await four[1].report({ index: 1 }, 5)));
  await raw((objects) => objects.put(kept, "state"));
  await four[0].report({ index: 0 }, 6);
  await raw((objects) => objects.put(kept, "state"));
  found.older = [await code(open), await code(() => four[1].report({ index: 0 }, 7))];
  const deleting = indexedDB.deleteDatabase("device");
  await new Promise((done) => deleting.onsuccess = done);
  found.deleted = await code(() => four[3].report({ index: 0 }, 6));
  found.lost = await code(open);
  await four[3].withdraw();
  found.withdrawn = await code(open);
  return found;
})()"""


def test_a_state_in_the_browser_keeps_the_rules(tmp_path: Path) -> None:
    """Four devices at once, an earlier epoch, damage, an older copy, a deleted database: as for a folder."""
    with site(tmp_path) as origin:
        deploy(tmp_path, "http://127.0.0.1:9/v1/reports")

        async def once() -> Any:
            async with browser(tmp_path / "profile") as found, found.visitor() as visitor:
                return await visitor.evaluate(f"{origin}/examples/web/index.html", STATE)

        found = asyncio.run(once())
    assert len(set(found["reports"])) == 1
    assert found["again"] == found["reports"][0]
    assert found["earlier"] == "E-DEVICE-EPOCH"
    assert found["damaged"] == ["E-DEVICE-STATE-DAMAGED"] * 2
    assert found["dropped"] == [0, {"full": 0, "damaged": 1}, found["reports"][0]]
    assert found["older"] == ["E-DEVICE-STATE-OLDER"] * 2
    assert (found["deleted"], found["lost"]) == ("E-DEVICE-STATE-LOST", "E-DEVICE-STATE-LOST")
    assert found["withdrawn"] == "E-DEVICE-WITHDRAWN"
