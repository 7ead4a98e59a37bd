"""The counter: whatever a write leaves that was cut off, it holds the number before or the new one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ldpbeam.durable.counter import FileCounter
from ldpbeam.durable.errors import DamageError


def test_numbers_come_back_in_other_objects(tmp_path: Path) -> None:
    path = tmp_path / "counter"
    assert FileCounter(path).read() is None
    FileCounter(path).write(7)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for number in (8, 9, 12, 1 << 63):
        counter = FileCounter(path)
        assert counter.read() is not None
        counter.write(number)
        assert counter.read() == FileCounter(path).read() == number
        assert path.stat().st_size == 8192


@pytest.mark.thorough
def test_a_write_that_was_cut_off_leaves_the_number_before(tmp_path: Path) -> None:
    """Any beginning of the block that it writes, or rubbish in it."""
    path = tmp_path / "counter"
    counter = FileCounter(path)
    counter.write(41)
    before = path.read_bytes()
    counter.write(42)
    after = path.read_bytes()
    changed = {place for place in range(8192) if before[place] != after[place]}
    assert changed
    assert max(changed) // 4096 == min(changed) // 4096, "one block alone"
    for size in range(8192):
        path.write_bytes(after[:size] + before[size:])
        assert FileCounter(path).read() in (41, 42)
    block = min(changed) // 4096 * 4096
    path.write_bytes(before[:block] + bytes([255]) * 4096 + before[block + 4096 :])
    assert FileCounter(path).read() == 41
    again = FileCounter(path)
    again.read()
    again.write(42)  # over the rubbish, and not over the number that is left
    assert FileCounter(path).read() == 42
    path.write_bytes(path.read_bytes().replace((42).to_bytes(8, "little"), bytes(8)))
    assert FileCounter(path).read() == 41


def test_a_file_without_a_number_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "counter"
    for content in (b"", bytes(8192), b"x" * 8192, (5).to_bytes(8, "little")):
        path.write_bytes(content)
        with pytest.raises(DamageError, match="two places"):
            FileCounter(path).read()
