"""One recorder for all tests here."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.recorder import Recorder, fast_folder


@pytest.fixture(scope="session")
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    made.close()


@pytest.fixture
def home() -> Iterator[Path]:
    made = fast_folder()
    yield made
    shutil.rmtree(made)
