"""Pages of synthetic runs, and a reader of their elements and words."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ldpbeam.durable.document import document
from ldpbeam.report_page.document import write_page
from tests.ldpbeam.report_page.synthetic import Fake, write_run


class Reader(HTMLParser):
    """Elements, attributes and text of a page, and whether its elements nest."""

    VOID = frozenset({"meta", "link", "br", "img", "input"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def page_of(root: Path, *fakes: Fake, truth: bool = True, **options: Any) -> str:
    output, true = write_run(root, fakes, **options)
    return write_page(output, root / "page.html", true if truth else None).read_text("utf-8")


def change(output: Path, **changes: Any) -> None:
    record = json.loads((output / "run.json").read_text())
    (output / "run.json").write_bytes(document({**record, **changes}))


def harmless(html: str) -> Reader:
    """Assert that a page names no address and holds no element or attribute that it should not."""
    assert re.findall(r"https?:|://", html, re.IGNORECASE) == []
    reader = Reader(html)
    assert reader.count("script") == 1
    for tag, attributes in reader.elements:
        assert tag not in {"img", "a", "iframe", "object", "image", "use", "foreignobject"} or (
            tag == "a" and (attributes["href"] or "").startswith("#")
        )
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "src" and "xlink" not in name
            if name == "href":
                assert (value or "").startswith(("#", "data:,")), value
    return reader
