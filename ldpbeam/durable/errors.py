"""Errors of this package, and how its callers put them into words; what a disk refuses stays an OSError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ldpbeam.errors import LdpError


class StoreError(Exception):
    """Why a lock or a store cannot be used. The text holds nothing of a store's content."""


class HeldError(StoreError):
    """Somebody else holds the lock, or the store."""


class DamageError(StoreError):
    """What lies on the disk is not what was written."""


class LostError(DamageError):
    """A store is gone, and its sentinel knows of it."""


class SentinelError(DamageError):
    """A sentinel is damaged."""


class OlderError(StoreError):
    """A store is an older copy, by its sentinel."""


class VersionError(StoreError):
    """A sound store is in a format of another version."""


class Words(NamedTuple):
    """An error in words; ``{error}`` and ``{sentinel}`` in them are its text and the path of the sentinel."""

    code: str
    what: str
    remedy: str


@contextmanager
def in_words(words: Mapping[type[StoreError], Words], store: Path, sentinel: Path) -> Iterator[None]:
    """Errors of this package in a block as errors for people."""
    try:
        yield
    except StoreError as error:
        code, *texts = next(words[one] for one in type(error).__mro__ if one in words)
        what, remedy = (text.format(error=error, sentinel=sentinel) for text in texts)
        where = str(sentinel if isinstance(error, SentinelError) else store)
        raise LdpError(code, what, where=where, remedy=remedy) from None
