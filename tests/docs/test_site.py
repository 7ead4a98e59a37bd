"""The site as `make docs` has built it loads nothing from elsewhere; mkdocs itself looks for dead links."""

from __future__ import annotations

import re

import pytest

from tests.conftest import REPOSITORY

SITE = REPOSITORY / "site"
FROM_ELSEWHERE = re.compile(
    r"""\b(?:src|srcset|data)=["']?(?:https?:)?//|<link\b(?![^>]*\bcanonical\b)[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|url\(\s*['"]?(?:https?:)?//|@import\s+['"](?:https?:)?//"""
)


@pytest.mark.site
@pytest.mark.parametrize("kind", ["html", "css", "svg"])
def test_no_page_loads_anything_from_elsewhere(kind: str) -> None:
    paths = [*SITE.rglob(f"*.{kind}")]
    assert paths
    assert [path.name for path in paths if FROM_ELSEWHERE.search(path.read_text("utf-8"))] == []
