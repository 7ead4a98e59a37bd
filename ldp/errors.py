"""Errors a person can act on, and the closed list of reasons for refusing a report.

An error says what is wrong, where, why it matters and what to do, in one line with a code. A report
that cannot be counted is not an error: it becomes a rejection with one of the :class:`Reason` values.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["CollectionError", "InvalidPayload", "JobError", "LdpError", "Reason", "UsageError"]


class LdpError(Exception):
    """A problem a person has to act on.

    Attributes:
        code: stable identifier, such as ``E-COLLECTION-KEY``; documented in docs/errors.md.
        exit_code: what a command that dies of it returns.
    """

    exit_code = 6

    def __init__(self, code: str, message: str, *, where: str = "", remedy: str = "") -> None:
        """Build the one-line text ``what in where. remedy [code]``."""
        self.code = code
        self.message = message
        self.where = where
        self.remedy = remedy
        super().__init__(code, message, where, remedy)

    def __str__(self) -> str:
        """The single line a person reads."""
        place = f" in {self.where}" if self.where else ""
        fix = f" {self.remedy}" if self.remedy else ""
        return f"{self.message}{place}.{fix} [{self.code}]"

    def at(self, where: str) -> LdpError:
        """The same error with the place filled in (kept when it already names one)."""
        if self.where:
            return self
        return type(self)(self.code, self.message, where=where, remedy=self.remedy)


class UsageError(LdpError):
    """The command was called in a way that cannot work."""

    exit_code = 2


class CollectionError(LdpError, ValueError):
    """A collection (its file, or the parameters in it) is not sound."""

    exit_code = 3


class JobError(LdpError):
    """A runner took the job, and the job failed there; nothing was published as finished."""


class Reason(Enum):
    """Why a record was not counted. Names are published (run.json, rejects/) and never change."""

    EMPTY_FILE = "empty_file"
    TRUNCATED = "truncated"
    CORRUPT_FILE = "corrupt_file"
    OVERSIZE = "oversize"
    MALFORMED = "malformed"
    UNKNOWN_COLLECTION = "unknown_collection"
    RETIRED_COLLECTION = "retired_collection"
    FOREIGN_EPOCH = "foreign_epoch"
    FUTURE_EPOCH = "future_epoch"
    WRONG_LENGTH = "wrong_length"
    VALUE_OUT_OF_RANGE = "value_out_of_range"
    UNUSED_BITS = "unused_bits"
    REPEATED_INDEX = "repeated_index"

    @property
    def explanation(self) -> str:
        """One sentence for a person: what happened and what usually fixes it."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    Reason.EMPTY_FILE: "The file holds no record; check the writer that produced it.",
    Reason.TRUNCATED: "The file ends inside a record; the writer was interrupted, send the rest again.",
    Reason.CORRUPT_FILE: "The file cannot be decompressed or opened in its format; fetch it again.",
    Reason.OVERSIZE: "The record is longer than the limit and was skipped unread; send smaller batches.",
    Reason.MALFORMED: "The record is not a Report or a ReportBatch message.",
    Reason.UNKNOWN_COLLECTION: "No collection of this run has the report's digest; add it with --collection.",
    Reason.FOREIGN_EPOCH: "The epoch is none of the collection's; check the device's clock and the origin.",
    Reason.RETIRED_COLLECTION: "The collection was retired before this epoch; update the device.",
    Reason.FUTURE_EPOCH: "The epoch had not begun when the report arrived; the device's clock is ahead.",
    Reason.WRONG_LENGTH: "The payload does not have the protocol's length; the device uses other parameters.",
    Reason.VALUE_OUT_OF_RANGE: "The payload names a value or symbol that does not exist in the collection.",
    Reason.REPEATED_INDEX: "The payload lists a sampled bucket twice or out of order.",
    Reason.UNUSED_BITS: "The payload sets bits beyond the domain; the device uses other parameters.",
}


class InvalidPayload(ValueError):  # noqa: N818 - names the condition, as the reasons do
    """A payload that no device with these parameters can have produced.

    Attributes:
        reason: which rule it breaks. The payload itself is never part of the text.
    """

    def __init__(self, reason: Reason, rule: str) -> None:
        """Keep the reason and the broken rule; never the payload."""
        self.reason = reason
        super().__init__(f"{reason.value}: {rule}")
