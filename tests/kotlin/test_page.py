"""docs/phones.md shows the program that its commands run (`make kotlin`)."""

from __future__ import annotations

from tests.conftest import REPOSITORY


def test_the_page_shows_the_example() -> None:
    source = (REPOSITORY / "examples" / "kotlin" / "src" / "main" / "kotlin" / "Main.kt").read_text("utf-8")
    assert f"```kotlin\n{source}```\n" in (REPOSITORY / "docs" / "phones.md").read_text("utf-8")
