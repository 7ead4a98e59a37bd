"""Composite transforms as functions, with types, and pickled by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, Concatenate, ParamSpec

import apache_beam as beam

Arguments = ParamSpec("Arguments")


def composite(build: Callable[Concatenate[Any, Arguments], Any]) -> Callable[Arguments, beam.PTransform]:
    """A function from a PCollection, and further arguments, as a transform that takes the latter."""

    @wraps(build)
    def make(*arguments: Arguments.args, **options: Arguments.kwargs) -> beam.PTransform:
        return _Composite(build, arguments, options)

    return make


class _Composite(beam.PTransform):
    def __init__(
        self, build: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        super().__init__()
        self._build, self._arguments, self._options = build, arguments, options

    def expand(self, pcoll: Any) -> Any:
        return self._build(pcoll, *self._arguments, **self._options)

    def default_label(self) -> str:
        return self._build.__name__

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._build.__module__, self._build.__qualname__, self._arguments, self._options)


def _made(module: str, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return getattr(import_module(module), name)(*arguments, **options)
