"""A checkout in which git wrote the links of this package as plain files: Windows does so by default.

``transforms``, ``pipelines`` and ``simulators`` cannot be imported there. Everything else can, and a device
needs nothing else, so only the import of one of the three is refused.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import NoReturn

from ldpbeam.errors import UsageError

LINKED = ("transforms", "pipelines", "simulators")
"""Folders of the repository that are part of this package by links."""


class CheckoutError(UsageError, ImportError):
    """A part of the package is a plain file that holds the target of a link."""


class _Refusal(MetaPathFinder):
    """Asked first: an editable installation of another checkout might have the module."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        package, _, rest = name.partition(".")
        part = rest.partition(".")[0]
        if package == "ldpbeam" and part in LINKED:
            refuse(part)


def refuse(part: str) -> NoReturn:
    """Say that a link to a folder of the repository is a plain file."""
    raise CheckoutError(
        "E-USAGE-CHECKOUT",
        f"ldpbeam/{part} is a link in the repository, and git wrote it as a plain file",
        where=str(Path(__file__).with_name(part)),
        remedy="Run git config core.symlinks true and git checkout -- ldpbeam (on Windows in developer "
        "mode), or pip install ldpbeam.",
    )


def refuse_links() -> None:
    """From now on an import of one of :data:`LINKED` raises a :class:`CheckoutError`."""
    sys.meta_path.insert(0, _Refusal())
