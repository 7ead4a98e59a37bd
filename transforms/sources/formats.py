"""Formats of other programs that are not read, recognised by their first bytes so that a person learns which.

No sound file of reports begins like one of them: each signature would be a length, or a field, that no report
has.
"""

from __future__ import annotations

from unicodedata import category

SAMPLE = 4096
"""Bytes at the beginning of a file by which its format is recognised."""

PARQUET = b"PAR1"
GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_LZ4 = b"\x04\x22\x4d\x18"

_DECOMPRESS = "decompress it first"
_CONVERT = "write it as Parquet with the columns digest, epoch, report_id and payload"
_BEGINNINGS = {
    b"BZh": ("bzip2", f"{_DECOMPRESS} (bunzip2), or compress by gzip or zstd"),
    b"\xfd7zXZ\0": ("xz", f"{_DECOMPRESS} (unxz), or compress by gzip or zstd"),
    b"\x5d\0\0\x80\0\xff\xff": ("lzma", f"{_DECOMPRESS} (unlzma), or compress by gzip or zstd"),
    _LZ4: ("lz4", f"{_DECOMPRESS} (unlz4), or compress by gzip or zstd"),
    b"\xff\x06\0\0sNaPpY": ("snappy (framing format)", f"{_DECOMPRESS}, or compress by gzip or zstd"),
    b"PK\x03\x04": ("a zip archive", "unpack it, and give the files that it holds"),
    b"Obj\x01": ("Avro", _CONVERT),
    b"ARROW1\0\0": ("Arrow IPC (Feather)", _CONVERT),
    b"SQLite format 3\0": ("an SQLite database", _CONVERT),
}
"""Formats that are told by their beginning alone, and what to do with each."""


def is_zstd(head: bytes) -> bool:
    """Whether a file begins with a frame of zstd; skippable ones belong to it (RFC 8878, 3.1.2)."""
    at = _behind_skippable(head)
    return head[at : at + 4] == _ZSTD or (at > 0 and head[at : at + 4] != _LZ4)


def _behind_skippable(head: bytes) -> int:
    """Where the first frame begins that is not skippable; behind the bytes given, for a long one."""
    at = 0
    while len(head) >= at + 4 and 0x50 <= head[at] <= 0x5F and head[at + 1 : at + 4] == b"\x2a\x4d\x18":
        at += 8 + int.from_bytes(head[at + 4 : at + 8], "little")
    return at


def unread_format(head: bytes, what: str = "file") -> str | None:
    """One sentence about a format that is not read: its name and what to do; None for any other bytes."""
    guess = _by_beginning(head) or _as_text(head)
    if guess is None:
        return None
    name, remedy = guess
    return f"The {what} is {name}, which is not read; {remedy}."


def unread_inside(head: bytes, outer: str) -> str | None:
    """The sentence about the first bytes out of a compressed file, in which only messages are read."""
    if head[:4] == PARQUET:
        return f"The file is Parquet inside {outer}, which is not read; {_DECOMPRESS}."
    if head[:2] == GZIP or is_zstd(head):
        return f"The file was compressed twice; {_DECOMPRESS} once."
    return unread_format(head)


def _by_beginning(head: bytes) -> tuple[str, str] | None:
    for beginning, about in _BEGINNINGS.items():
        if head.startswith(beginning):
            return about
    at = _behind_skippable(head)
    return _BEGINNINGS[_LZ4] if at and head[at : at + 4] == _LZ4 else None


def _as_text(head: bytes) -> tuple[str, str] | None:
    """Text, which begins without control signs; joiners, marks of direction and odd blanks belong to it."""
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        # The end of a sample may cut a character in two.
        text = head.decode(encoding, "ignore" if len(head) >= SAMPLE else "strict")
    except UnicodeDecodeError:
        return None
    if len(text) < 2 or any(category(sign) in ("Cc", "Cn") and sign not in "\t\r\n" for sign in text):
        return None
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        return "JSON text", "write its reports as protobuf messages or Parquet"
    return "text", (
        "reports are protobuf messages or Parquet; of a CSV file with values, ldpbeam simulate makes reports"
    )
