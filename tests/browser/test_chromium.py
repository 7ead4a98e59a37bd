"""The browser itself works, so that a red page test means a broken page."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

PAGE = "<!doctype html><title>t</title><p id=p>before</p><script>p.textContent = 'after'</script>"


def test_scripts_run_before_the_page_is_read(dump_dom: Callable[[Path], str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE)
    assert '<p id="p">after</p>' in dump_dom(page)


def test_a_picture_has_the_size_asked_for(screenshot: Callable[..., Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE)
    header = screenshot(page, width=400, height=300).read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")
    assert (width, height) == (400, 300)
