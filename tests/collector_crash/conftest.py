"""The recorder of power losses, as in tests/crash."""

from tests.crash.conftest import home, recorder

__all__ = ["home", "recorder"]
