"""What a file begins with: Parquet, gzip, zstd, or text, which is not read and said to be what it is.

No sound file of reports begins like text: it would be a length, or a field, that no report has.
"""

from __future__ import annotations

from unicodedata import category

SAMPLE = 4096
"""Bytes at the beginning of a file by which its format is recognised."""

PARQUET = b"PAR1"
GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def is_zstd(head: bytes) -> bool:
    """Whether a file begins with a frame of zstd; skippable ones belong to it (RFC 8878, 3.1.2)."""
    return head[:4] == _ZSTD or (head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5)


def unread_format(head: bytes, what: str = "file") -> str | None:
    """One sentence about text: what it is and what to do; None for any other bytes."""
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        # The end of a sample may cut a character in two.
        text = head.decode(encoding, "ignore" if len(head) >= SAMPLE else "strict")
    except UnicodeDecodeError:
        return None
    # Joiners, marks of direction and odd blanks belong to text.
    if len(text) < 2 or any(category(sign) in ("Cc", "Cn") and sign not in "\t\r\n" for sign in text):
        return None
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        return (
            f"The {what} is JSON text, which is not read; write its reports as protobuf messages or Parquet."
        )
    return (
        f"The {what} is text, which is not read; reports are protobuf messages or Parquet; "
        "of a CSV file with values, ldpbeam simulate makes reports."
    )


def unread_inside(head: bytes, outer: str) -> str | None:
    """The sentence about the first bytes out of a compressed file, in which only messages are read."""
    if head[:4] == PARQUET:
        return f"The file is Parquet inside {outer}, which is not read; decompress it first."
    if head[:2] == GZIP or is_zstd(head):
        return "The file was compressed twice; decompress it once."
    return unread_format(head)
