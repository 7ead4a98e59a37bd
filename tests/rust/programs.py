"""The programs of the Rust client for tests, and where their devices live."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.conftest import REPOSITORY

WORKSPACE = REPOSITORY / "clients" / "rust"


@cache
def program(name: str) -> Path:
    """One of ``examples/``, built with random bytes that tests may script."""
    command = ["cargo", "build", "--quiet", "--locked", "--examples", "--all-features"]
    subprocess.run(command, cwd=WORKSPACE, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", WORKSPACE / "target"))
    return target / "debug" / "examples" / name


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder in memory, where the system has one: devices force every report to disk."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
