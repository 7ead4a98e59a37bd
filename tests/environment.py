"""The environment of processes that threads of a test start."""

import os

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
"""A copy from the import of this module. pytest sets and removes ``PYTEST_CURRENT_TEST`` at each test. If a
thread copies ``os.environ`` at that moment, the copy fails."""
