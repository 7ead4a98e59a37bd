"""Words that docs/glossary.md has replaced stay out of identifiers and pages."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.conftest import REPOSITORY

RETIRED = {
    "told": "published",
    "books": "accounting",
    "booked": "accounting, account or entry",
    "draught": "batch",
    "elsewhere": "sink",
    "strange": "foreign or unknown",
    "news": "pending or unpublished",
    "settle": "sync, or what it does",
    "settled": "synced, or what it is",
    "said": "the thing that was said",
    "found": "the thing that was found",
    "kept": "the thing that was kept",
}
"""What was said, and what is said instead."""
OF_OTHERS = ("FileNotFoundError", "ModuleNotFoundError", "NotFound", "PackageNotFoundError")
"""Names of Python and of libraries."""
PHRASES = (
    "draught",
    "dealt anew",
    "the books",
    "its books",
    "is booked",
    "are booked",
    "is told",
    "are told",
    "MATHS",
    "DirectRunner",
)
PACKAGES = ("ldpbeam", "transforms", "pipelines", "simulators")


def words(identifier: str) -> set[str]:
    """``_told_elsewhere`` and ``ToldElsewhere`` are told and elsewhere."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)}


def retired_identifiers(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string not in OF_OTHERS:
            for word in sorted(words(token.string) & RETIRED.keys()):
                yield f"{token.start[0]}: {token.string} (say {RETIRED[word]})"


def retired_phrases(page: str) -> list[str]:
    text = " ".join(page.split())
    return [phrase for phrase in PHRASES if re.search(rf"\b{phrase}\b(?! apart)", text)]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.thorough
def test_no_identifier_has_a_retired_word(package: str) -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        for line in retired_identifiers(path.read_text("utf-8"))
    ]
    assert found == []


def test_no_page_has_a_retired_phrase() -> None:
    pages = [REPOSITORY / "README.md", REPOSITORY / "SECURITY.md", *(REPOSITORY / "docs").rglob("*.md")]
    found = {page.name: retired_phrases(page.read_text("utf-8")) for page in pages}
    assert {name: phrases for name, phrases in found.items() if phrases} == {}


def test_the_checks_can_fail() -> None:
    assert list(retired_identifiers("def _told_elsewhere(newsletter): ...")) == [
        "1: _told_elsewhere (say sink)",
        "1: _told_elsewhere (say published)",
    ]
    assert list(retired_identifiers("except FileNotFoundError: _Found = 1")) == [
        "1: _Found (say the thing that was found)"
    ]
    assert list(retired_identifiers("OtherBooks = unfold = 1")) == ["1: OtherBooks (say accounting)"]
    assert retired_phrases("a result\nis told, and the\nbooks say so") == ["the books", "is told"]
    assert retired_phrases("which cannot be told apart") == []


def classes(source: str) -> list[str]:
    """Public classes of a module."""
    return [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def doubles(names: Iterable[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}


def test_no_two_public_classes_have_one_name() -> None:
    paths = [
        path
        for package in PACKAGES
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
    ]
    names = [name for path in paths for name in classes(path.read_text("utf-8"))]
    assert len(names) > 300
    assert doubles(names) == set()


def test_the_search_for_doubles_can_fail() -> None:
    source = "class Source: ...\nclass _Source: ...\n"
    assert doubles(classes(source) + classes(source)) == {"Source"}
    assert doubles(classes(source)) == set()
