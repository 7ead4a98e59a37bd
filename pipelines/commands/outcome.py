"""What to tell somebody whose run has counted nothing."""

from __future__ import annotations

from typing import Any

from ldpbeam.errors import Reason
from ldpbeam.pipelines.inputs import looks_like_text

__all__ = ["why_nothing"]

_UNREADABLE = frozenset({Reason.MALFORMED, Reason.TRUNCATED, Reason.OVERSIZE, Reason.CORRUPT_FILE})


def why_nothing(record: dict[str, Any]) -> str | None:
    """That nothing was counted and what is the likely cause and remedy; None where something was.

    Args:
        record: content of run.json.
    """
    total = record["accounting"]["total"]
    if total["counted"]:
        return None
    cause, remedy = _cause(record, total)
    return f"nothing was counted, no estimate was written: {cause}. {remedy}"


def _cause(record: dict[str, Any], total: dict[str, Any]) -> tuple[str, str]:
    """The commonest fate of the records, with what usually mends it."""
    if not total["read"]:
        if "stream" in record:
            return "no message came", "Check the subscription and that devices publish to its topic."
        return "the input holds no record", "Check --input."
    fates = {"late": total["late"], "duplicate": total["duplicate"], **total["rejected"]}
    fate = max(fates, key=lambda name: fates[name])
    if not fates[fate]:
        return "the epochs are not over", "Start the stream again to go on."
    part = "all" if fates[fate] == total["read"] else f"{fates[fate]:,} of {total['read']:,}"
    if fate == "late":
        return _late(part, record.get("stream"))
    return _rejected(part, Reason(fate), [one["path"] for one in record["inputs"]])


def _late(part: str, stream: dict[str, Any] | None) -> tuple[str, str]:
    if stream is not None and not stream.get("timestamp_attribute"):
        return (
            f"{part} arrived after their epochs had closed, by the time of publication",
            "If a collector received them earlier, give its attribute with --timestamp-attribute; "
            "else raise allowed_lateness of the collection.",
        )
    return (
        f"{part} arrived after their epochs had closed",
        "Raise allowed_lateness of the collection, or check epoch.origin and the devices' clocks.",
    )


def _rejected(part: str, reason: Reason, inputs: list[str]) -> tuple[str, str]:
    if reason is Reason.UNKNOWN_COLLECTION:
        return (
            f"{part} belong to a collection that was not given",
            "Give with --collection the very file that the devices have: any change of its parameters "
            "makes it another collection.",
        )
    text = next(filter(looks_like_text, inputs), None) if reason in _UNREADABLE else None
    if text is not None:
        return (
            f"{text} is text, and reports are protobuf messages or Parquet",
            "Give files of reports to --input; ldpbeam simulate makes reports from a CSV file.",
        )
    return f"{part} were rejected as {reason.value}", reason.explanation
