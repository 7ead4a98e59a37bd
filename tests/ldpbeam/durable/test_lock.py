"""The lock: one at a time, its file never followed nor emptied."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pytest

from ldpbeam.client.folder import DeviceFolder
from ldpbeam.durable import lock as module
from ldpbeam.durable.errors import HeldError
from ldpbeam.durable.lock import Lock
from ldpbeam.errors import LdpError


def test_another_one_is_kept_out_until_it_is_released(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.acquire()
    first.acquire()  # nothing happens
    with pytest.raises(HeldError):
        second.acquire()
    first.release()
    second.acquire()
    with pytest.raises(HeldError), first.held():
        pass
    second.release(remove=True)
    assert not (tmp_path / "lock").exists()
    with first.held(), pytest.raises(HeldError):
        second.acquire()


def test_it_is_waited_for_as_long_as_asked(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.acquire()
    begun = time.monotonic()
    with pytest.raises(HeldError):
        second.acquire(0.2)
    assert time.monotonic() - begun >= 0.2
    threading.Timer(0.1, first.release).start()
    second.acquire(60)


def test_a_file_that_its_holder_removed_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever had opened it before locks a file without a name: somebody else could lock the next one."""
    path = tmp_path / "lock"
    attempts: list[int] = []
    lock = module._lock

    def removed_meanwhile(descriptor: int) -> bool:
        if not attempts:
            path.unlink()
        attempts.append(descriptor)
        return lock(descriptor)

    monkeypatch.setattr(module, "_lock", removed_meanwhile)
    with Lock(path).held():
        assert len(attempts) == 2
        with pytest.raises(HeldError):
            Lock(path).acquire()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> bool:
        raise OSError(errno.EOPNOTSUPP, "")

    monkeypatch.setattr(module, "_lock", refuse)
    with pytest.raises(LdpError, match=rf"{tmp_path}.*no locks.*disk of this machine.*E-DISK-LOCKS"):
        DeviceFolder(tmp_path / "folder")
