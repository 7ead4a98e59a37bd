"""What every test may rely on."""

from pathlib import Path

import pytest
from hypothesis import settings

# The chance that a correct program fails the whole suite by bad luck. Statistical tests divide it
# by the number of comparisons they make.
FALSE_ALARM_SUITE = 1e-6

REPOSITORY = Path(__file__).resolve().parents[1]

# Derandomized, so that a red run is red again; no deadline, since a first call compiles kernels.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The public data sets, which lie beside the checkout and are not part of it."""
    path = REPOSITORY.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no public data sets: {path} is absent")
    return path
