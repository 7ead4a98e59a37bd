"""The project's address stands in one place, and is invented nowhere."""

import re

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.repository.home import PAGES, home, passages, written

ADDRESS = "https://example.org/ldpbeam"
HOSTS = re.compile(
    r"https?://(?:www\.)?(?:github|gitlab|bitbucket|codeberg|readthedocs|pypi)\.[a-z]+/\S*ldpbeam", re.I
)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_address_that_pyproject_has(name: str) -> None:
    text = (REPOSITORY / name).read_text("utf-8")
    assert any(passage in text for passage in passages(home()).values())
    assert written(text, home()) == text


@pytest.mark.parametrize("name", PAGES)
def test_an_address_reaches_each_page(name: str) -> None:
    text = written((REPOSITORY / name).read_text("utf-8"), ADDRESS)
    assert ADDRESS in text
    assert "no public home" not in text
    if name.endswith(".yml"):
        assert yaml.safe_load(text)["contact_links"][0]["url"] == ADDRESS


def test_no_page_invents_an_address() -> None:
    pages = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob(".github/**/*")]
    texts = {page.name: page.read_text("utf-8") for page in pages if page.is_file()}
    assert {name: HOSTS.findall(text) for name, text in texts.items() if HOSTS.search(text)} == {}
    assert HOSTS.search("see https://github.com/somebody/ldpbeam/issues")
