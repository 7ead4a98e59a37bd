"""Errors a person can act on, and the closed list of reasons for refusing a report.

An error says what is wrong, where, why it matters and what to do, in one line with a code. A report
that cannot be counted is not an error: it becomes a rejection with one of the :class:`Reason` values.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from typing import Any, Self

from ldpbeam.text import clean

_LONGEST = 500  # characters of what is wrong


class LdpError(Exception):
    """A problem a person has to act on.

    Attributes:
        code: stable identifier, such as ``E-COLLECTION-KEY``; documented in docs/errors.md.
        exit_code: what a command that dies of it returns.
    """

    exit_code = 6

    def __init__(self, code: str, message: str, *, where: str = "", remedy: str = "") -> None:
        """Build the one-line text ``where: what. remedy [code]``."""
        self.code = code
        self.message = message
        self.where = where
        self.remedy = remedy
        super().__init__(code, message, where, remedy)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        fix = f" {self.remedy}" if self.remedy else ""
        # Messages quote what somebody wrote; a line stays one, and short enough to read.
        return f"{clean(place)}{clean(self.message, _LONGEST)}.{clean(fix)} [{self.code}]"

    def at(self, where: str) -> Self:
        """The same error with the place filled in (kept when it already names one)."""
        if self.where:
            return self
        placed = type(self)(self.code, self.message, where=where, remedy=self.remedy)
        vars(placed).update(vars(self), where=where)  # a subclass has more fields
        return placed


class UsageError(LdpError):
    """The command was called in a way that cannot work."""

    exit_code = 2


def option_error(what: str, remedy: str, where: object = "") -> UsageError:
    """About options that cannot work, alone or together."""
    return UsageError("E-USAGE-OPTION", what, where=str(where), remedy=remedy)


class CollectionError(LdpError, ValueError):
    """A collection (its file, or the parameters in it) is not sound.

    Attributes:
        key: of the collection file, where the fault lies; empty where no single key has it.
    """

    exit_code = 3

    def __init__(self, code: str, message: str, *, key: str = "", where: str = "", remedy: str = "") -> None:
        super().__init__(code, message, where=where, remedy=remedy)
        self.key = key


def require(sound: object, key: str, message: str, remedy: str) -> None:
    """Raise CollectionError about the value of a key that is not sound."""
    if not sound:
        raise CollectionError("E-COLLECTION-VALUE", message, key=key, remedy=remedy)


class DeviceError(LdpError, ValueError):
    """A device cannot report, or must not. The text never holds a value."""


class JobError(LdpError):
    """A runner took the job, and the job failed there; nothing was published as finished."""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_NO_FILE = frozenset({errno.ELOOP, errno.EMLINK, errno.EISDIR})
"""A symbolic link, which some systems call EMLINK, or a folder, where a file of ours has its place."""


def disk_error(error: OSError, where: str = "") -> LdpError | None:
    """What a person can do about a disk that takes no more; None for any other failure."""
    place = where or str(error.filename or "")
    if error.errno in _FULL:
        return LdpError(
            "E-DISK-FULL",
            f"nothing more can be written ({error.strerror})",
            where=place,
            remedy="Make room, or choose another directory; then run the same command again.",
        )
    if error.errno in _DENIED:
        return LdpError(
            "E-DISK-DENIED",
            f"the operating system refuses access ({error.strerror})",
            where=place,
            remedy="Choose a directory that you may write to, or correct its permissions; then run again.",
        )
    if error.errno in _NO_FILE:
        return LdpError(
            "E-DISK-LINK",
            f"what lies there is no regular file, and is neither followed nor replaced ({error.strerror})",
            where=place,
            remedy="Move it away, or choose another directory; then run again.",
        )
    if error.errno == errno.ENOLCK:
        return LdpError(
            "E-DISK-LOCKS",
            f"the file system, perhaps a network folder, has no locks ({error.strerror})",
            where=place,
            remedy="Choose a directory on a disk of this machine; then run again.",
        )
    return None


@contextmanager
def disk_errors(where: str = "", *, default: str = "") -> Iterator[None]:
    """Around calls of the operating system: an error of :func:`disk_error` in place of theirs."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, where or ("" if error.filename else default)) or error from None


_EXTRAS = {
    "pipeline": {
        "apache_beam",
        "click",
        "numba",
        "numpy",
        "pyarrow",
        "rich",
        "scipy",
        "zstandard",
    },
    "page": {"altair", "jinja2", "vl_convert"},
    "gcp": {"google.api_core", "google.auth", "google.cloud"},
    "collect": {"aiohttp"},
}
"""Extras of pyproject.toml, and the modules that they bring."""


def optional_module(name: str) -> Any:
    """A module that an extra brings."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise extra_error(error) or error from None


def extra_error(error: ModuleNotFoundError) -> UsageError | None:
    """Which extra of the distribution brings a module that is not installed; None for any other module."""
    extras = (n for n, modules in _EXTRAS.items() for m in modules if f"{error.name}.".startswith(f"{m}."))
    extra = next(extras, None)
    if extra is None:
        return None
    return UsageError(
        "E-USAGE-EXTRA",
        f"this needs {error.name}, which is not installed",
        remedy=f"Install it with: pip install 'ldpbeam[{extra}]'.",
    )


class Reason(Enum):
    """Why a record was not counted. Names are published (run.json, rejects/) and never change."""

    EMPTY_FILE = "empty_file"
    TRUNCATED = "truncated"
    CORRUPT_FILE = "corrupt_file"
    UNSUPPORTED_FORMAT = "unsupported_format"
    WRONG_COLUMNS = "wrong_columns"
    UNREADABLE_FILE = "unreadable_file"
    EXPANSION_LIMIT = "expansion_limit"
    OVERSIZE = "oversize"
    MALFORMED = "malformed"
    UNKNOWN_COLLECTION = "unknown_collection"
    RETIRED_COLLECTION = "retired_collection"
    FOREIGN_EPOCH = "foreign_epoch"
    FUTURE_EPOCH = "future_epoch"
    TOO_MANY_EPOCHS = "too_many_epochs"
    WRONG_LENGTH = "wrong_length"
    VALUE_OUT_OF_RANGE = "value_out_of_range"
    UNUSED_BITS = "unused_bits"
    REPEATED_INDEX = "repeated_index"
    DEGENERATE = "degenerate_payload"
    CONFLICTING_ID = "conflicting_report_id"

    @property
    def explanation(self) -> str:
        """One sentence for a person: what happened and what usually fixes it."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    Reason.EMPTY_FILE: "The file is empty, which counts as one record; check the writer that produced it.",
    Reason.TRUNCATED: "The file ends inside a record; the writer was interrupted, send the rest again.",
    Reason.CORRUPT_FILE: "The file, or a part of it, is not sound in its format; fetch it again.",
    Reason.UNSUPPORTED_FORMAT: "The file is sound in a format that is not read; convert or decompress it.",
    Reason.WRONG_COLUMNS: "The table has no digest, epoch, report_id or payload, or one of another type; "
    "rename or convert the column.",
    Reason.UNREADABLE_FILE: "The file cannot be read or is no regular file; check permissions and storage.",
    Reason.EXPANSION_LIMIT: "The file stands for too much data for its size, the rest was not read; see "
    "--max-expansion.",
    Reason.OVERSIZE: "The record is longer than the limit and was skipped unread; send smaller batches.",
    Reason.MALFORMED: "The record is not a Report or a ReportBatch message.",
    Reason.UNKNOWN_COLLECTION: "No collection of this run has the report's digest; add it with --collection.",
    Reason.FOREIGN_EPOCH: "The epoch is none of the collection's; check the device's clock and the origin.",
    Reason.RETIRED_COLLECTION: "The collection was retired before this epoch; update the device.",
    Reason.FUTURE_EPOCH: "The epoch had not begun when the report arrived or its file was written; the "
    "device's clock is ahead, or the time of the file (or --not-after) is wrong.",
    Reason.TOO_MANY_EPOCHS: "More epochs have reports than --max-epochs; those with the fewest are left out.",
    Reason.WRONG_LENGTH: "The payload does not have the protocol's length; the device uses other parameters, "
    "or the payload was written as hex or base64 in place of its bytes.",
    Reason.VALUE_OUT_OF_RANGE: "The payload names a value or symbol that does not exist in the collection.",
    Reason.REPEATED_INDEX: "The payload lists a sampled bucket twice or out of order.",
    Reason.DEGENERATE: "Less than one device in 2^50 draws such a payload: it is forged.",
    Reason.CONFLICTING_ID: "Another payload came under the same report id and counts instead; one is "
    "forged, or copies of one device sent both.",
    Reason.UNUSED_BITS: "The payload sets bits beyond the domain; the device uses other parameters.",
}


class InvalidPayload(ValueError):  # noqa: N818 - names the condition, as the reasons do
    """A payload that no device with these parameters can have produced."""

    def __init__(self, reason: Reason, rule: str) -> None:
        self.reason = reason
        super().__init__(f"{reason.value}: {rule}")
