"""Makes docs/figures/page-light.png and page-dark.png: the top of a demonstration's page, in Chromium.

python docs/figures/make_page_pictures.py demo-output
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SIZE = (1100, 940)
SCHEMES = {"dark": 0, "light": 1}
"""What a reader may have chosen, as Chromium numbers it."""


def take(page: Path, scheme: str, target: Path) -> None:
    """Write a picture of a page's top.

    Raises:
        FileNotFoundError: Chromium is not installed.
        CalledProcessError: it ends with an error.
    """
    browser = shutil.which("chromium")
    if browser is None:
        raise FileNotFoundError("chromium is not installed: make chromium")
    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        flags += [f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", f"--user-data-dir={profile}"]
        flags += ["--disable-background-networking", "--virtual-time-budget=10000"]
        flags += [f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={target}"]
        subprocess.run(  # noqa: S603 - a browser, by its own path
            [browser, *flags, page.resolve().as_uri()], check=True, capture_output=True
        )


if __name__ == "__main__":
    shown = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output") / "index.html"
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent
    for name in SCHEMES:
        take(shown, name, folder / f"page-{name}.png")
