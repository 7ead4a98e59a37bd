"""The environment of processes that threads of a test start."""

import os

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
"""A copy from the import of this module. pytest sets and removes a variable at each test, and a thread that
copies ``os.environ`` just then fails."""
