"""The recorder of tests/crash, and its folders."""

from tests.crash.conftest import home, recorder

__all__ = ["home", "recorder"]
