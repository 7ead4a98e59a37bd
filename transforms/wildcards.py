"""Paths among the patterns of Beam's file systems, in which ``*``, ``?`` and ``[`` have a meaning."""

import re

WILD = re.compile(r"[*?\[]")
"""A sign that makes a pattern of a path."""


def at_least(path: str) -> str:
    """A pattern that matches a path, and perhaps others of its length: Beam has no way to quote a sign."""
    return WILD.sub("?", path)
