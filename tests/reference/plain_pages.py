"""Slow, obvious search for values that lie in the pages of a Parquet column as they are, in plain Python.

What ``ldpbeam.kernels.plain_pages`` finds is compared with this.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.reference.parquet_headers import unsigned, zigzag


class OtherPages(Exception):  # noqa: N818 - a signal inside this module
    """The pages are of another kind, or of none."""


def values_of(
    data: bytes, width: int, rows: int, largest: int, most: int
) -> tuple[int, list[tuple[int, int]]] | None:
    """How many pages there are to join, 0 for one value of all rows, and where values lie; None for others.

    Args:
        data: the pages of a column.
        width: bytes of a value.
        rows: how many values there are to be.
        largest: bytes that a page may have.
        most: pages that there may be.
    """
    try:
        pages = list(_pages(data, largest))
        _require(0 < len(pages) <= most)
        shared = pages.pop(0) if pages[0][0] == 2 else None
        _require(all(kind == 0 and values > 0 for kind, _, _, values, _ in pages))
        _require(sum(values for _, _, _, values, _ in pages) == rows)
        if shared is None:
            _require(all(code == 0 and size == values * width for _, _, size, values, code in pages))
            return len(pages), [(at, size) for _, at, size, _, _ in pages]
        _, begin, size, values, code = shared
        _require(values == 1 and size == width and code in (0, 2))
        for _, at, length, values, code in pages:
            _require(code in (2, 8) and _zeros(data[at : at + length], values))
        return 0, [(begin, size)]
    except (OtherPages, IndexError, ValueError):
        return None


def _pages(data: bytes, largest: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Kind, begin and size of the values, their number and their encoding, of each page."""
    at = 0
    while at < len(data):
        kind, at = _small(data, at)
        size, at = _small(data, at)
        stored, at = _small(data, at)
        _require(stored == size and kind in (0, 2) and data[at] == {0: 0x2C, 2: 0x4C}[kind])
        values, at = _small(data, at + 1)
        encoding, at = _small(data, at)
        if kind == 0:
            for _ in range(2):
                levels, at = _small(data, at)
                _require(levels in (3, 4))
            if data[at] == 0x1C:
                at = _statistics(data, at + 1)
        elif data[at] in (0x11, 0x12):
            at += 1
        _require(data[at : at + 2] == bytes(2))
        at += 2
        _require(size <= min(largest, len(data) - at))
        yield kind, at, size, values, encoding
        at += size


def _small(data: bytes, at: int) -> tuple[int, int]:
    _require(data[at] == 0x15)
    value, at = zigzag(data, at + 1)
    _require(0 <= value < 1 << 31)
    return value, at


def _statistics(data: bytes, at: int) -> int:
    while head := data[at]:
        at += 1
        kind = head & 15
        _require(kind in (1, 2, 6, 8))
        if not head >> 4:
            _, at = zigzag(data, at)
        if kind == 6:
            _, at = zigzag(data, at)
        elif kind == 8:
            length, at = unsigned(data, at)
            at += length
    return at + 1


def _zeros(page: bytes, values: int) -> bool:
    """Whether a page has indices of at most a byte, and is one run of so many zeros."""
    if len(page) < 3 or not 1 <= page[0] <= 8:
        return False
    try:
        run, end = unsigned(page[:6], 1)
    except (IndexError, ValueError):
        return False
    return run == 2 * values and page[end:] == b"\0"


def _require(sound: bool) -> None:
    if not sound:
        raise OtherPages
