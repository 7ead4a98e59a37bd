"""What a terminal or a page is shown of texts that somebody else wrote."""

from __future__ import annotations

import pytest

from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import CollectionError, LdpError
from ldpbeam.text import clean
from tests.waiting import quickly

HEAD = "name: a\nprotocol: grr\nepsilon: 1.0\nepoch: {length: 1h}\n"


@pytest.mark.parametrize("bad", ["\x1b", "\n", "\r", "\x07", "\x9b", "\u202e", "\u2028", "\udcff", "\0"])
def test_control_characters_are_replaced(bad: str) -> None:
    assert clean(f"a{bad}b") == "a\ufffdb"
    text = str(LdpError("E-TEST", f"a{bad}b", where=f"c{bad}", remedy=f"d{bad}"))
    assert text == "c\ufffd: a\ufffdb. d\ufffd [E-TEST]"


def test_texts_are_bounded() -> None:
    assert clean("ä" * 3000) == "ä" * 1999 + "…"
    assert clean("joined\u200d") == "joined\u200d"
    text = str(LdpError("E-TEST", "x" * 10**6, remedy="Do this."))
    assert len(text) < 600
    assert text.endswith(". Do this. [E-TEST]")


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "domain: {size: 3}\nowner: &a x\nretired: *a\n",
        HEAD + "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}]\n" for i in range(1, 9)),
        HEAD + "domain: {size: 3}\nretired: [[[x]]]\n",
        HEAD + "domain: {size: 3}\nallowed_lateness: {a: b}\n",
        HEAD + f"domain: {{size: 3}}\nretired: {'k' * 10**5}\n",
        HEAD + f"domain: {{labels: [{'k' * 10**5}, {'k' * 10**5}]}}\n",
        HEAD + f"domain: {{labels: [{', '.join(f'a{i // 2}' for i in range(20_000))}]}}\n",
    ],
)
def test_hostile_collections_are_refused_at_once(text: str) -> None:
    def refused() -> str:
        with pytest.raises(CollectionError) as error:
            parse_collection(text)
        return str(error.value)

    assert len(quickly(refused, 10)) < 800
