"""Beam's Prism, built by the Go toolchain from the release that is installed here."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from ldpbeam.pipelines.beam_job import PRISM_BINARY
from tests.conftest import REPOSITORY

COMMAND = "github.com/apache/beam/sdks/v2/go/cmd/prism"


@pytest.fixture(scope="session")
def prism() -> Path:
    """The binary, below `.cache` of the checkout; LDPBEAM_PRISM names another one."""
    named = os.environ.get(PRISM_BINARY)
    if named:
        return Path(named)
    release = version("apache-beam")
    folder = REPOSITORY / ".cache" / f"prism-{release}"
    if not (folder / "prism").exists():
        go = shutil.which("go")
        if go is None:  # a failure, not a skip: who asked for these tests wants them run
            pytest.fail(
                f"Prism is built with Go, which is not installed; or name a binary with {PRISM_BINARY}"
            )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n")
        environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"}
        done = subprocess.run(
            [go, "install", f"{COMMAND}@v{release}"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"Prism was not built:\n{done.stderr[-2000:]}")
    return folder / "prism"
