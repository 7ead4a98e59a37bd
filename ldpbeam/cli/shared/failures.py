"""Failures that are no fault of the program: of services, stores and disks, and parts that are not installed.

Libraries report these with errors of their own. Here they become one line with what to do; E-INTERNAL is left
for what nobody foresaw.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator

from ldpbeam.errors import JobError, LdpError, UsageError, disk_error, extra_error

_LONGEST = 200  # characters of what a library says
_BEAM_EXTRA = re.compile(r"apache[-_]beam\[(\w+)\]|\bthe (\w+) beam extra\b")
_STORE_EXTRAS = {"s3": "aws", "hdfs": "hadoop", "azfs": "azure", "gs": "gcp"}
"""Extras of Beam that read a store, by the scheme of its paths."""
_ADDRESS = (
    "a service does not answer",
    "Start it, or correct its address (--kafka-expansion, --pubsub-expansion or --job_endpoint).",
)
_SERVICES = (
    (
        "google.auth.exceptions",
        "GoogleAuthError",
        "Google's libraries find no valid credentials",
        "Run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS.",
    ),
    (
        "google.api_core.exceptions",
        "GoogleAPIError",
        "a service of Google Cloud refuses or does not answer",
        "Check the project, the names and the roles of these credentials.",
    ),
    ("grpc", "RpcError", *_ADDRESS),
    ("grpc", "FutureTimeoutError", *_ADDRESS),
)
"""Module and name of a library's error, what it says about a service, and what to do."""
_SCHEME = re.compile(r"\b([a-z][a-z0-9+.-]*)://")


def outside_error(error: BaseException) -> LdpError | None:
    """What a person can do about a failure outside the program; None where the program is at fault."""
    for one in _chain(error):
        outside = _known(one)
        if outside is not None:
            return outside
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__


def _known(error: BaseException) -> LdpError | None:
    if _is(error, "apache_beam.io.filesystem", "BeamIOError") or _no_store(error):
        return _store(error)
    if isinstance(error, ImportError):
        return _missing(error)
    if isinstance(error, MemoryError):
        return LdpError(
            "E-RUN-MEMORY",
            "there is not enough memory",
            remedy="Run where there is more, or count fewer values or epochs at once.",
        )
    for module, name, what, remedy in _SERVICES:
        if _is(error, module, name):
            return _service(error, what, remedy)
    return _system(error) if isinstance(error, OSError) else None


def _system(error: OSError) -> LdpError | None:
    """An error of the operating system; one without a number is a library's."""
    if (known := disk_error(error)) is not None:
        return known
    if isinstance(error, ConnectionError | TimeoutError) or type(error).__module__ in {
        "socket",
        "urllib.error",
    }:
        return _service(
            error, "a service does not answer", "Check the network and the address that was given."
        )
    if error.errno is None or error.strerror is None:
        return None
    place = str(error.filename or "")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return LdpError(
            "E-DISK-FILES", "too many files are open", where=place, remedy="Raise the limit with ulimit -n."
        )
    return LdpError(
        "E-DISK-FAILED",
        f"the operating system reports an error ({error.strerror})",
        where=place,
        remedy="Check that the path is there and the disk is sound, then run the same command again.",
    )


def _store(error: BaseException) -> LdpError:
    """A store of objects that cannot be used: its part of Beam is missing, or it refuses."""
    text = _text(error)
    scheme = _SCHEME.search(text)
    part = _STORE_EXTRAS.get(scheme[1] if scheme else "", "NAME")
    return UsageError(
        "E-USAGE-STORE",
        f"the store cannot be used: {text}",
        remedy="Check the path (a folder, or gs://, s3://, hdfs:// or azfs://), that Beam's part for it is "
        f"installed (pip install 'apache-beam[{part}]'), and that the credentials may read and write there.",
    )


def _no_store(error: BaseException) -> bool:
    return isinstance(error, ValueError) and "Unable to get filesystem from specified path" in str(error)


def _missing(error: ImportError) -> LdpError | None:
    """A module of one of our extras, or a part of Beam that its own message asks to install."""
    extra = extra_error(error) if isinstance(error, ModuleNotFoundError) else None
    match = _BEAM_EXTRA.search(str(error))
    if extra is not None or match is None:
        return extra
    part = match[1] or match[2]
    wanted = "ldpbeam[gcp]" if part == "gcp" else f"apache-beam[{part}]"
    return UsageError(
        "E-USAGE-EXTRA",
        f"this needs a part of Beam that is not installed ({_text(error)})",
        remedy=f"Install it with: pip install '{wanted}'.",
    )


def _service(error: BaseException, what: str, remedy: str) -> JobError:
    return JobError("E-RUN-SERVICE", f"{what} ({_text(error)})", remedy=remedy)


def _text(error: BaseException) -> str:
    details = getattr(error, "details", None)
    details_or_error = details() if callable(details) else error
    line = " ".join(str(details_or_error or type(error).__name__).split())
    return (line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…").rstrip(".")


def _is(error: BaseException, module: str, name: str) -> bool:
    """Whether an error is of a class of a library; what is not imported has raised nothing."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(error, kind)
