"""Whole files: there or not, never through a link, never under a name that somebody can foretell."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from pathlib import Path
from unittest import mock

import pytest

from ldpbeam.durable import folder
from ldpbeam.durable.file import GROUP, PRIVATE, PUBLIC, replacing, write_file
from ldpbeam.durable.folder import file_size, make_folder, make_lasting_folder, open_file
from ldpbeam.errors import disk_error


def test_a_file_takes_the_place_of_another_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_bytes(b"old")
    with replacing(path, PUBLIC) as handle:
        handle.write(b"new")
        handle.flush()
        assert path.read_bytes() == b"old"
        (temporary,) = set(tmp_path.iterdir()) - {path}
        assert re.fullmatch(r"one\.[0-9a-f]{8}\.tmp", temporary.name)
        assert temporary.read_bytes() == b"new"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_bytes(b"old")
    for error in (OSError(errno.ENOSPC, "full"), KeyboardInterrupt()):
        with pytest.raises(type(error)), replacing(path, PUBLIC) as handle:
            handle.write(b"new")
            raise error
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"old"]


def test_content_is_on_disk_before_the_name_is_and_then_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        about = os.fstat(descriptor)
        calls.append("fsync folder" if stat.S_ISDIR(about.st_mode) else f"fsync file of {about.st_size}")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)

    def replaced(*paths: str) -> None:
        calls.append("replace")
        replace(*paths)

    monkeypatch.setattr(os, "replace", replaced)
    write_file(tmp_path / "one", [b"ab", b"c"], PUBLIC)
    assert calls == ["fsync file of 3", "replace", "fsync folder"]
    calls.clear()
    with replacing(tmp_path / "two", PUBLIC, force=False) as handle:
        handle.write(b"x")
    assert calls == ["replace"]


def test_permissions_are_those_that_are_asked_for(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        for mode, wanted in ((PUBLIC, 0o644), (GROUP, 0o640), (PRIVATE, 0o600)):
            write_file(tmp_path / "one", [b""], mode)
            assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == wanted
    finally:
        os.umask(before)


def test_a_name_that_is_taken_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should somebody guess it after all: neither a link nor a file there is written through."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"somebody's")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0" * 8)
    (tmp_path / "one.00000000.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "one", [b"ours"], PUBLIC)
    assert victim.read_bytes() == b"somebody's"


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe"])
def test_only_a_regular_file_is_opened(kind: str, tmp_path: Path) -> None:
    path, victim = tmp_path / "one", tmp_path / "victim"
    victim.write_bytes(b"somebody's")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(victim if kind == "link" else tmp_path / "nothing")
    for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
        with pytest.raises(OSError, match="no file") as error:
            open_file(path, flags, PRIVATE)
        assert error.value.errno == errno.ELOOP
        assert "E-DISK-LINK" in str(disk_error(error.value))
    with pytest.raises(OSError, match="no file"):
        file_size(path)
    assert victim.read_bytes() == b"somebody's"
    assert not (tmp_path / "nothing").exists()


def test_each_folder_above_is_forced_to_disk_whoever_made_it(tmp_path: Path) -> None:
    """Up to the root of the file system: the process that made one may have ended before it did so."""
    path = tmp_path / "a" / "b"
    path.mkdir(parents=True)
    synced: list[Path] = []
    with mock.patch.object(folder, "sync_folder", lambda one: synced.append(Path(one))):
        make_lasting_folder(path)
    above = [one for one in path.parents if one.stat().st_dev == tmp_path.stat().st_dev]
    assert path.is_dir()
    assert synced[-len(above) :] == above
    assert len(above) >= 2


def test_folders_above_are_made_too_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for one in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"):
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_lasting_folder(tmp_path / "file")
    assert file_size(tmp_path / "file") == 0
    assert file_size(tmp_path / "nothing") is None
