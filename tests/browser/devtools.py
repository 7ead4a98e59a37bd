"""Chromium by its DevTools protocol: fresh storage contexts, one page each, expressions evaluated in them."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.waiting import PATIENCE

FLAGS = (
    "--headless",
    "--no-sandbox",  # refused to root otherwise; the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # The background services would look for the network, which a test machine may not have.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # Timers of pages that nobody looks at would fire once a second.
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
)


class BrowserError(Exception):
    """What the browser says went wrong."""


class Browser:
    """A browser that runs."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self.console: list[str] = []
        """What pages wrote to their consoles, or caused there."""

    async def listen(self) -> None:
        async for message in self._socket:
            found = json.loads(message.data)
            if found.get("method") in (
                "Log.entryAdded",
                "Runtime.consoleAPICalled",
                "Runtime.exceptionThrown",
            ):
                self.console.append(json.dumps(found["params"]))
            asked = self._asked.pop(found.get("id"), None)
            if asked is None or asked.done():
                continue
            if "error" in found:
                asked.set_exception(BrowserError(found["error"]["message"]))
            else:
                asked.set_result(found["result"])

    async def ask(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._asked[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        return await asyncio.wait_for(self._asked[number], PATIENCE)

    @asynccontextmanager
    async def visitor(self) -> AsyncIterator[Visitor]:
        """Somebody who was never here: no storage is shared with others."""
        context = (await self.ask("Target.createBrowserContext"))["browserContextId"]
        try:
            yield Visitor(self, context)
        finally:
            await self.ask("Target.disposeBrowserContext", browserContextId=context)


class Visitor:
    """One storage context."""

    def __init__(self, browser: Browser, context: str) -> None:
        self._browser = browser
        self._context = context

    async def evaluate(self, url: str, expression: str) -> Any:
        """Open a page and give what an expression, or its promise, comes to in it; then close the page."""
        async with self.page(url) as page:
            return await page.value(expression)

    @asynccontextmanager
    async def page(
        self, url: str, width: int = 1280, media: str = "screen", scheme: str = "light"
    ) -> AsyncIterator[Page]:
        """Open a page until the block ends."""
        ask = self._browser.ask
        target = (await ask("Target.createTarget", url="about:blank", browserContextId=self._context))[
            "targetId"
        ]
        session = (await ask("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        page = Page(self._browser, session)
        try:
            for domain in ("Page", "Log", "Runtime"):
                await ask(f"{domain}.enable", session)
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            await ask("Emulation.setDeviceMetricsOverride", session, **size)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            await ask("Emulation.setEmulatedMedia", session, media=media, features=features)
            await ask("Page.navigate", session, url=url)
            # Elements are there once a page is read; before that, it may still be the empty one.
            while await page.value("document.readyState != 'loading' && location.href") != url:
                await asyncio.sleep(0.01)
            yield page
        finally:
            await ask("Target.closeTarget", targetId=target)


class Page:
    """A page that is open."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    async def value(self, expression: str) -> Any:
        """What an expression, or its promise, comes to."""
        done = await self._browser.ask(
            "Runtime.evaluate", self._session, expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise BrowserError(json.dumps(done["exceptionDetails"]))
        return done["result"].get("value")

    async def press(self, key: str) -> None:
        """Press a key and let it go, as a person does: Tab, Enter or ArrowRight."""
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39}
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        await self._browser.ask("Input.dispatchKeyEvent", self._session, type="keyDown", **pressed, **text)
        await self._browser.ask("Input.dispatchKeyEvent", self._session, type="keyUp", **pressed)


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Browser]:
    """Chromium with a profile of its own, until the block ends."""
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not installed; run `make browser`, which installs it"
    process = await asyncio.create_subprocess_exec(
        chromium,
        *FLAGS,
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "about:blank",
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        address = profile / "DevToolsActivePort"
        async with asyncio.timeout(PATIENCE):
            while not (address.exists() and len(address.read_text().split()) == 2):
                await asyncio.sleep(0.05)
        port, path = address.read_text().split()
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0) as socket,
        ):
            found = Browser(socket)
            listening = asyncio.create_task(found.listen())
            try:
                yield found
            finally:
                listening.cancel()
    finally:
        process.terminate()
        await process.wait()
