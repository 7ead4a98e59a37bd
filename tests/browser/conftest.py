"""Chromium driven by its command line: no driver, no extra package."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

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
    "--hide-scrollbars",
)


def _run(tmp_path: Path, page: Path, *options: str) -> str:
    browser = shutil.which("chromium")
    if browser is None:  # a failure, not a skip: who asked for browser tests wants them run
        pytest.fail("chromium is not installed; run `make browser`, which installs it")
    command = [browser, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def dump_dom(tmp_path: Path) -> Callable[[Path], str]:
    """The page as it stands after its scripts ran."""
    return lambda page: _run(tmp_path, page, "--virtual-time-budget=10000", "--dump-dom")


@pytest.fixture
def screenshot(tmp_path: Path) -> Callable[..., Path]:
    """A PNG of the page at a window size."""

    def take(page: Path, width: int = 1280, height: int = 900) -> Path:
        picture = tmp_path / f"{page.stem}-{width}x{height}.png"
        _run(tmp_path, page, f"--window-size={width},{height}", f"--screenshot={picture}")
        return picture

    return take
