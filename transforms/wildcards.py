"""Paths among the patterns of Beam's file systems, in which ``*``, ``?`` and ``[`` have a meaning."""

import re

WILD = re.compile(r"[*?\[]")
"""A sign that makes a pattern of a path."""


def literally(path: str) -> str:
    """The pattern that matches a path and nothing else."""
    return WILD.sub(lambda sign: f"[{sign[0]}]", path)
