"""How every kernel is compiled, decided once, and where compiled ones are kept between processes.

``nogil`` lets Beam's worker threads count at the same time. No fast-math: results are integers and must be
the same everywhere. No ``parallel``: with several Beam threads numba's default threading layer aborts the
process. A division by 0 gives what it gives in numpy: a check before every division, to raise for it, would
keep loops out of vector registers.

Compiling costs seconds, and every process would pay them again. What is kept is machine code that a later
process runs, so it is kept only where nobody else can have written: a folder of the user's own, mode 0700, no
link. One folder serves one state of the kernels' sources and of the compiler; numba itself tells processors
and signatures apart, writes beside and renames. ``LDPBEAM_KERNEL_CACHE`` names another folder, or is ``off``.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config
from numba.core.caching import FunctionCache

F = TypeVar("F", bound=Callable[..., object])

VARIABLE = "LDPBEAM_KERNEL_CACHE"
_VERSIONS = 8
"""Folders of other states that are left: a few checkouts and versions side by side."""


def cache_folder() -> Path | None:
    """The folder for these kernels, made if need be; None where none is safe, and each process compiles."""
    asked = os.environ.get(VARIABLE, "")
    if asked == "off" or not hasattr(os, "geteuid"):
        return None
    try:
        base = Path(asked) if asked else _of_the_user()
        folder = base / _state()
        if not folder.is_dir():
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _ours(base):
                return None
            _prune(base)
            folder.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):
        return None  # no home, no room, no right
    return folder if _ours(base) and _ours(folder) else None


def _of_the_user() -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "ldpbeam" / "kernels"


def _ours(folder: Path) -> bool:
    """Whether a folder belongs to this user, and nobody else may write into it."""
    status = folder.lstat()
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _state() -> str:
    """Compiler and sources: numba takes note of a kernel's own file, not of those that it calls."""
    digest = sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return f"numba-{numba.__version__}-{digest.hexdigest()[:16]}"


def _prune(base: Path) -> None:
    """Remove the folders that were made first; a process that still uses one compiles again."""
    folders = sorted(base.glob("numba-*"), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in folders[_VERSIONS:]:
        shutil.rmtree(folder, ignore_errors=True)


class KernelCache(FunctionCache):
    """numba's cache of one function, except that a damaged or unwritable file is as good as none."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function; None where there is none that can be read, and it is compiled anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001, RUF100 - whatever a torn file makes of a pickle
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it if that is possible: a full disk must not stop a count."""
        with suppress(Exception):
            super().save_overload(sig, data)


_FOLDER = cache_folder()
_OPTIONS = {"nogil": True, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile a loop on first use; dtypes are fixed at the edge, since each new one compiles again."""
    compiled = numba.njit(**_OPTIONS)(function)
    if _FOLDER is not None:
        # Not njit(cache=True): its folder is one for all users of numba in the process, its faults are fatal.
        others, config.CACHE_DIR = config.CACHE_DIR, str(_FOLDER)
        try:
            compiled._cache = KernelCache(function)
        finally:
            config.CACHE_DIR = others
    return cast(F, compiled)


def inlined(function: F) -> F:
    """Compile a function into every kernel that calls it; it is kept with them, and only with them."""
    return cast(F, numba.njit(**_OPTIONS, forceinline=True)(function))


def copied(function: F) -> F:
    """Copy a function's statements into every kernel that calls it: compiles faster where few calls do."""
    return cast(F, numba.njit(**_OPTIONS, inline="always")(function))
