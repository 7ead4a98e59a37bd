"""Texts as docs/wire.md has them, letter by letter, and what a word draws: nothing of the client's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["drawn", "fingerprints"]


def fingerprints(rule: Mapping[str, Any], text: str) -> list[int]:
    """The fingerprint of each prefix, by the ``strings`` of a device's definition."""
    most, letters = rule["max_length"], []
    for sign in text:
        capital = rule["fold"] and 65 <= ord(sign) <= 90
        letters.append(chr(ord(sign) + 32) if capital else sign)
    if rule["drop"]:
        letters = [sign for sign in letters if rule["symbols"].count(sign)][:most]
    elif len(letters) > most or any(not rule["symbols"].count(sign) for sign in letters):
        letters = ["\x01"]
    letters += ["\x00"] * (most - len(letters))
    found = []
    for length in rule["lengths"]:
        hashed = b"ldpbeam prefix 1\x00" + "".join(letters[:length]).encode("utf-8")
        first = hashlib.sha256(hashed).digest()
        found.append(first[0] + (first[1] << 8) + (first[2] << 16) + (first[3] << 24))
    return found


def drawn(weights: Sequence[int], word: int) -> int:
    """Which attribute, or which length, a word stands for."""
    counted = [index for index, weight in enumerate(weights) for _ in range(weight)]
    return counted[word]
