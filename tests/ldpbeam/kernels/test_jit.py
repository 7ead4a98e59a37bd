"""Compiled kernels are kept where nobody else can write, and a damaged file costs time, never a result."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numba.core import config

from ldpbeam.kernels import jit
from ldpbeam.kernels.jit import KernelCache, cache_folder


def test_it_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jit.VARIABLE, "off")
    assert cache_folder() is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    base = tmp_path / "kept"
    base.mkdir(mode=0o700)
    monkeypatch.setenv(jit.VARIABLE, str(base))
    folder = cache_folder()
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    for place in (folder, base):
        place.chmod(mode)
        assert cache_folder() is None
        place.chmod(0o700)
    assert cache_folder() == folder


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jit.VARIABLE, str(tmp_path / "kept"))
    assert cache_folder() is not None
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache_folder() is None


def test_other_sources_have_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jit.VARIABLE, str(tmp_path / "kept"))
    first = cache_folder()
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "kernels" / "jit.py"))
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "symbols.py").write_text("changed")
    second = cache_folder()
    assert first != second
    # Old ones go.
    for state in range(20):
        (tmp_path / "kernels" / "symbols.py").write_text(f"changed again {state}")
        newest = cache_folder()
    assert newest is not None
    assert newest.is_dir()
    assert len(list((tmp_path / "kept").iterdir())) == jit._VERSIONS + 1


def test_what_cannot_be_kept_is_still_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(numbers: np.ndarray) -> int:
        return 2 * numbers.sum()

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    compiled = njit(twice)
    compiled._cache = KernelCache(twice)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiled._cache._cache_file, "save", full)
    assert compiled(np.arange(4)) == 12
