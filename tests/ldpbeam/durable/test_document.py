from __future__ import annotations

import json

import pytest

from ldpbeam.durable.document import document, parse_document
from ldpbeam.durable.errors import DamageError

RECORD = {"name": "ä\ud800", "n": 2**63, "part": [0.1, -0.0, 1e300, None, True], "inner": {"b": 1, "a": 2}}


@pytest.mark.parametrize("indent", [1, None])
def test_a_record_comes_back(indent: int | None) -> None:
    content = document(RECORD, indent)
    assert parse_document(content) == RECORD
    assert list(json.loads(content)) == [*RECORD, "sha256"]
    assert content.endswith(b"}\n")
    assert content.count(b"\n") == 1 or indent


def test_another_layout_and_another_order_are_the_same_record() -> None:
    found = json.loads(document(RECORD))
    assert parse_document(json.dumps(dict(reversed(found.items())))) == RECORD
    assert parse_document(document(RECORD).replace(b"\n", b"\r\n")) == RECORD


def test_every_bit_counts() -> None:
    content = document(RECORD)
    refused = 0
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        try:
            found = parse_document(bytes(changed))
        except (ValueError, DamageError):
            refused += 1
        else:
            assert json.dumps(found) == json.dumps(RECORD)
    assert refused > 7 * len(content)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"sha256": ["a"]}'])
def test_what_was_not_written_here_is_refused(text: str) -> None:
    with pytest.raises((ValueError, DamageError)):
        parse_document(text)


def test_a_number_that_is_written_otherwise_is_another() -> None:
    """1 and 1.0 are one number in JSON and two in Python."""
    with pytest.raises(DamageError, match="another content"):
        parse_document(document({"n": 1}).replace(b'"n": 1', b'"n": 1.0'))
