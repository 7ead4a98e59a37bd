"""What a file may say about strings, and the faults that are refused with their line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ldpbeam.collection.file import parse_collection
from ldpbeam.collection.record import collection_of, definition
from ldpbeam.errors import CollectionError

TEXT = "name: words\nprotocol: olh\nepsilon: 2\nepoch: {length: 1d}\n"


def test_the_digest_has_the_whole_rule() -> None:
    """Each key, and what follows from it, is something on which devices and server must agree."""
    texts = (
        "{max_length: 8, symbols: lower}",
        "{max_length: 9, symbols: lower}",
        "{max_length: 8, symbols: hostname}",
        "{max_length: 8, symbols: lower, fold: true}",
        "{max_length: 8, symbols: lower, outside: drop}",
    )
    made = [parse_collection(f"{TEXT}domain: {{strings: {text}}}") for text in texts]
    assert len({one.digest for one in made}) == len(texts)
    for one in made:
        assert collection_of(definition(one)) == one
    assert len({replace(made[0], parameters=replace(made[0].parameters, g=g)).digest for g in (2, 8)}) == 2
    named, written = (
        parse_collection(f"{TEXT}domain: {{strings: {{max_length: 3, symbols: digits}}}}"),
        (parse_collection(f"{TEXT}domain: {{strings: {{max_length: 3, symbols: '0123456789'}}}}")),
    )
    assert named == written


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("domain: {strings: {symbols: lower}}", "key 'max_length' is missing"),
        ("domain: {strings: {max_length: 65, symbols: lower}}", "max_length must lie in 1 .. 64, not 65"),
        (
            "domain: {strings: {max_length: 8, symbols: aba}}",
            "2 to 256 different characters, not 3 of which 2",
        ),
        ("domain: {strings: {max_length: 8, symbols: a}}", "2 to 256 different characters, not 1 of which 1"),
        ("domain: {strings: {max_length: 8, symbols: aB, fold: true}}", "symbols has capital letters"),
        ("domain: {strings: {max_length: 8, symbols: ab, outside: cut}}", "no such choice as cut"),
        ("domain: {strings: {max_length: 8, symbols: ab}, ordered: true}", "stands alone in a domain"),
        ("hash_family: affine\ndomain: {strings: {max_length: 8, symbols: ab}}", "is no choice where"),
        (
            "consistency: norm_sub\ndomain: {strings: {max_length: 8, symbols: ab}}",
            "published as they were estimated",
        ),
    ],
)
def test_a_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(CollectionError, match=f"^c.yaml:[56]: .*{why}"):
        parse_collection(TEXT + text, "c.yaml")


def test_other_protocols_are_not_for_strings() -> None:
    grr = TEXT.replace("olh", "grr") + "domain: {strings: {max_length: 8, symbols: ab}}"
    with pytest.raises(CollectionError, match=r"^c.yaml:2: protocol grr is not for strings.*olh, loloha"):
        parse_collection(grr, "c.yaml")
