"""Names of Pub/Sub, Google's library for it, and its errors: for every part that speaks to Pub/Sub."""

from __future__ import annotations

import re
from concurrent.futures import TimeoutError as Expired
from typing import Any, Literal

from ldpbeam.errors import LdpError, UsageError, optional_module

Kind = Literal["subscription", "topic"]

_PROJECT = r"(?:[a-z][-a-z0-9:.]{4,61}[a-z0-9]|[0-9]{1,20})"
_NAME = r"(?!goog)[A-Za-z][-A-Za-z0-9._~%+]{2,254}"

_STALE = "Getting metadata from plugin failed"
"""What gRPC says, as a fault of the server, when a token cannot be renewed."""


def require_path(kind: Kind, path: str) -> str:
    """The path itself, when it has the form ``projects/P/subscriptions/S`` (or ``topics/T``)."""
    if re.fullmatch(f"projects/{_PROJECT}/{kind}s/{_NAME}", path):
        return path
    remedy = f"Write projects/PROJECT/{kind}s/NAME; a name has 3 to 255 letters, digits and -._~%+."
    if kind == "subscription" and "/topics/" in path:
        remedy = f"This is a topic: make a subscription to it. {remedy}"
    raise UsageError("E-PUBSUB-MISSING", f"{path!r} is not the path of a Pub/Sub {kind}", remedy=remedy)


def library() -> Any:
    return optional_module("google.cloud.pubsub_v1")


def explain(error: BaseException | None, kind: Kind, path: str) -> LdpError:
    """An error of Google's libraries as one of ours; ours stay what they are."""
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    if isinstance(error, LdpError):
        return error
    why = " ".join(str(error or "no reason given").split())[:200].rstrip(".")
    code, message = "E-RUN-SERVICE", f"the connection to Pub/Sub ended ({why})"
    remedy = "Start the run again: what was not acknowledged is delivered again."
    if isinstance(error, exceptions.NotFound):
        code, message = "E-PUBSUB-MISSING", f"there is no such {kind}"
        remedy = f"Check the path, or make it with: gcloud pubsub {kind}s create."
    elif isinstance(error, exceptions.Forbidden) or "PERMISSION_DENIED" in why:
        code, message = "E-USAGE-CREDENTIALS", f"these credentials may not use the {kind}"
        role = "subscriber" if kind == "subscription" else "publisher"
        remedy = f"Grant them the role roles/pubsub.{role}."
    elif isinstance(error, GoogleAuthError | exceptions.Unauthorized) or _STALE in why:
        code, message = "E-USAGE-CREDENTIALS", f"Google's libraries find no valid credentials ({why})"
        remedy = "Run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS."
    elif isinstance(error, exceptions.ServerError | exceptions.RetryError | Expired):
        code, message = "E-PUBSUB-UNREACHABLE", f"Pub/Sub does not answer ({why})"
        remedy = "Check the network and, where set, PUBSUB_EMULATOR_HOST."
    elif isinstance(error, exceptions.ClientError):
        code, message = "E-PUBSUB-REFUSED", f"Pub/Sub refuses this use of the {kind} ({why})"
        remedy = "A subscription must deliver by pull, not push or export; a message takes at most 10 MB."
    return (LdpError if code == "E-RUN-SERVICE" else UsageError)(code, message, where=path, remedy=remedy)
