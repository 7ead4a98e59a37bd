"""The TypeScript client where programs run in Chromium: pages, workers, frames, with localStorage or not."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.browser.devtools import browser
from tests.browser.test_web_example import CLIENT, Quiet, running
from tests.conftest import REPOSITORY
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.timeout(2 * PATIENCE)]

REPORT = """
import { Device, IndexedDbStore } from "/client/index.js";

/** What becomes of a report: its length and whether a sentinel guards the state, or an error's code. */
export async function report(name, epoch = 5, sentinel) {
  const never = new Promise((done) => setTimeout(() => done("never settled"), 20000));
  const trial = (async () => {
    try {
      const definition = await (await fetch("/definition.json")).json();
      const store = await IndexedDbStore.open(name, sentinel);
      const device = await Device.open(definition, store);
      const bytes = await device.report("dark", epoch);
      store.close();
      return [bytes.length, store.guarded];
    } catch (error) {
      return error.code ?? `no DeviceError: ${error}`;
    }
  })();
  return Promise.race([trial, never]);
}
"""
WORKER = """
import { report } from "/report.js";
onmessage = async ({ data }) => postMessage([typeof localStorage, await report(data)]);
"""
SERVICE = """
import { report } from "/report.js";
addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("message", (event) => {
  event.waitUntil((async () => event.source.postMessage([typeof localStorage, await report(event.data)]))());
});
"""
FRAME = """<!doctype html><script type="module">
const found = await import("/report.js").then(({ report }) => report("frame"), (error) => String(error));
parent.postMessage(found, "*");
</script>"""
LENGTH = 23
"""Bytes of a report of examples/web."""


class Site(Quiet):
    """Files, and a collector that sets a cookie and notes what it is sent."""

    server: Server

    def end_headers(self) -> None:
        self.send_header("Set-Cookie", "visitor=1; Path=/")
        self.send_header("Access-Control-Allow-Origin", "*")  # a frame of no origin loads the client
        super().end_headers()

    def do_POST(self) -> None:  # noqa: N802 - the name of the library
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append(dict(self.headers))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Server(ThreadingHTTPServer):
    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(Site, directory=str(folder)))
        self.posted: list[dict[str, str]] = []
        self.answers: list[int] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    if not (CLIENT / "index.js").is_file():
        pytest.fail("the TypeScript client is not built; run `make js-build`")
    folder = tmp_path / "site"
    shutil.copytree(CLIENT, folder / "client")
    shutil.copy(REPOSITORY / "examples" / "web" / "definition.json", folder)
    for name, text in {
        "report.js": REPORT,
        "worker.js": WORKER,
        "service.js": SERVICE,
        "frame.html": FRAME,
        "index.html": "<!doctype html><title>t</title>",
    }.items():
        (folder / name).write_text(text)
    server = Server(folder)
    with running(server):
        yield server


def evaluated(served: Server, tmp_path: Path, *expressions: str) -> list[Any]:
    """What expressions come to in one visitor's page, loaded anew for each."""

    async def visit() -> list[Any]:
        async with browser(tmp_path / "profile") as chromium, chromium.visitor() as visitor:
            page = f"{served.url}/index.html"
            return [
                json.loads(await visitor.evaluate(page, f"(async () => JSON.stringify(await ({one})))()"))
                for one in expressions
            ]

    return asyncio.run(visit())


def report(name: str = "device", epoch: int = 5, before: str = "") -> str:
    """An expression: a report from the page, after something was done to it."""
    return f"""(async () => {{
      const {{ report }} = await import("/report.js");
      {before}
      return report({json.dumps(name)}, {epoch});
    }})()"""


def test_a_page_reports_and_its_state_is_guarded(served: Server, tmp_path: Path) -> None:
    emptied = "await new Promise((done) => indexedDB.deleteDatabase('device').onsuccess = done);"
    found = evaluated(served, tmp_path, report(), report(epoch=6), report(epoch=7, before=emptied))
    assert found == [[LENGTH, True], [LENGTH, True], "E-DEVICE-STATE-LOST"]


FULL = """
  let filled = 0;
  for (let size = 1 << 22; size >= 1; size >>= 1)
    for (;;) { try { localStorage.setItem("fill" + filled, "x".repeat(size)); filled++; } catch { break; } }
  for (;;) { try { localStorage.setItem("f" + filled, ""); filled++; } catch { break; } }
"""


def test_a_full_local_storage_costs_the_guard_and_no_report(served: Server, tmp_path: Path) -> None:
    """Really full: not one more entry."""
    cleared = report(epoch=7, before="localStorage.clear();")
    found = evaluated(served, tmp_path, report(before=FULL), report(epoch=6), cleared)
    assert found == [[LENGTH, False], [LENGTH, False], [LENGTH, True]]


def test_a_page_without_local_storage_reports(served: Server, tmp_path: Path) -> None:
    """As WebViews have it, and pages whose storage is blocked."""
    denied = "throw new DOMException('Access is denied for this document.', 'SecurityError');"
    before = f"Object.defineProperty(window, 'localStorage', {{ get() {{ {denied} }} }});"
    assert evaluated(served, tmp_path, report(before=before)) == [[LENGTH, False]]


def test_a_dedicated_worker_reports(served: Server, tmp_path: Path) -> None:
    """One state for the page and its workers: the worker's is guarded by no sentinel, the page's by one."""
    worker = """new Promise((done, fail) => {
      const worker = new Worker("/worker.js", { type: "module" });
      worker.onmessage = ({ data }) => done(data);
      worker.onerror = (event) => fail(new Error(event.message));
      worker.postMessage("device");
    })"""
    found = evaluated(served, tmp_path, worker, report(), worker)
    assert found == [["undefined", [LENGTH, False]], [LENGTH, True], ["undefined", [LENGTH, False]]]


def test_a_service_worker_reports(served: Server, tmp_path: Path) -> None:
    service = """(async () => {
      await navigator.serviceWorker.register("/service.js", { type: "module" });
      const { active } = await navigator.serviceWorker.ready;
      const said = new Promise((done) => navigator.serviceWorker.onmessage = ({ data }) => done(data));
      active.postMessage("device");
      return said;
    })()"""
    assert evaluated(served, tmp_path, service, report()) == [
        ["undefined", [LENGTH, False]],
        [LENGTH, True],
    ]


def test_a_frame_whose_storage_is_blocked_has_an_error(served: Server, tmp_path: Path) -> None:
    """A sandboxed frame has no origin: Chromium refuses IndexedDB and localStorage alike."""
    frame = """new Promise((done) => {
      addEventListener("message", ({ data }) => done(data));
      const frame = document.createElement("iframe");
      frame.setAttribute("sandbox", "allow-scripts");
      frame.src = "/frame.html";
      document.body.append(frame);
    })"""
    assert evaluated(served, tmp_path, frame) == ["E-DEVICE-STORE"]


def test_a_sentinel_that_fails_begins_no_device(served: Server, tmp_path: Path) -> None:
    sentinel = "{read() { throw 1; }, write() { throw 2; }}"
    fails = f'import("/report.js").then(({{ report }}) => report("device", 5, {sentinel}))'
    found = evaluated(served, tmp_path, fails, report(), fails)
    assert found == ["E-DEVICE-STORE", [LENGTH, True], [LENGTH, False]]


SEND = """(async () => {
  const { Device, IndexedDbStore, Sender } = await import("/client/index.js");
  const definition = await (await fetch("/definition.json")).json();
  const device = await Device.open(definition, await IndexedDbStore.open());
  for (const epoch of [1, 2]) await device.report("dark", epoch);
  const sender = new Sender(device.outbox, location.origin + "/v1/reports");
  return [document.cookie, await sender.sendDue(), sender.failures];
})()"""


def test_no_cookie_and_no_address_of_the_page_go_with_a_report(served: Server, tmp_path: Path) -> None:
    """Though the page's own server set one: two reports of a person must not be linked by it."""
    assert evaluated(served, tmp_path, SEND) == [["visitor=1", 2, 0]]
    assert len(served.posted) == 2
    for headers in served.posted:
        assert headers["Content-Type"] == "application/x-protobuf"
        assert {name.lower() for name in headers}.isdisjoint({"cookie", "referer", "authorization"})
