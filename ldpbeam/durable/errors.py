"""Errors of this package, which a caller puts into words of its own; what a disk refuses stays an OSError."""

from __future__ import annotations


class HeldError(Exception):
    """Somebody else holds the lock, or the store."""


class DamageError(Exception):
    """What lies on the disk is not what was written. The text holds nothing of the content."""


class VersionError(Exception):
    """A sound store in a format of another version.

    Attributes:
        version: of the store.
        expected: the version that this program reads.
    """

    def __init__(self, version: int, expected: int) -> None:
        super().__init__(f"format {version} in place of {expected}")
        self.version = version
        self.expected = expected
