"""A JSON file that says whether it is what was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from ldpbeam.durable.errors import DamageError

_KEY = "sha256"


def document(record: Mapping[str, Any], indent: int | None = 1) -> bytes:
    """The record as JSON, with a last key ``sha256``: a digest of all other keys."""
    content = {name: value for name, value in record.items() if name != _KEY}
    return (json.dumps({**content, _KEY: _digest(content)}, indent=indent) + "\n").encode()


def parse_document(text: str | bytes) -> dict[str, Any]:
    """The record that :func:`document` wrote, without ``sha256``."""
    content = json.loads(text)
    if not isinstance(content, dict) or _KEY not in content:
        raise DamageError("it has no key sha256")
    digest = content.pop(_KEY)
    if digest != _digest(content):
        raise DamageError("its key sha256 is that of another content")
    return content


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content as JSON with sorted keys, in hexadecimal digits."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return sha256(b"ldpbeam document\0" + text.encode()).hexdigest()
