"""Names of Pub/Sub, and Google's library for it: what every part that speaks to Pub/Sub needs."""

from __future__ import annotations

import re
from typing import Any, Literal

from ldpbeam.errors import UsageError, optional_module

Kind = Literal["subscription", "topic"]

_PROJECT = r"(?:[a-z][-a-z0-9:.]{4,61}[a-z0-9]|[0-9]{1,20})"
_NAME = r"(?!goog)[A-Za-z][-A-Za-z0-9._~%+]{2,254}"


def require_path(kind: Kind, path: str) -> str:
    """The path itself, when it has the form ``projects/P/subscriptions/S`` (or ``topics/T``).

    Raises:
        UsageError: it has not.
    """
    if re.fullmatch(f"projects/{_PROJECT}/{kind}s/{_NAME}", path):
        return path
    remedy = f"Write projects/PROJECT/{kind}s/NAME; a name has 3 to 255 letters, digits and -._~%+."
    if kind == "subscription" and "/topics/" in path:
        remedy = f"This is a topic: make a subscription to it. {remedy}"
    raise UsageError("E-PUBSUB-NAME", f"{path!r} is not the path of a Pub/Sub {kind}", remedy=remedy)


def library() -> Any:
    """The package google.cloud.pubsub_v1.

    Raises:
        UsageError: it is not installed.
    """
    return optional_module("google.cloud.pubsub_v1")
