"""Beam's ``ptransform_fn`` with types, so that calls of composites are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import apache_beam as beam

Arguments = ParamSpec("Arguments")


def composite(build: Callable[Concatenate[Any, Arguments], Any]) -> Callable[Arguments, Any]:
    """A function from a PCollection, and further arguments, as a transform that takes the latter."""
    transform: Callable[Arguments, Any] = beam.ptransform_fn(build)
    return transform
