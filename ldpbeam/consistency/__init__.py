"""Stage 5 of 5: consistency, which turns raw unbiased estimates into a histogram.

One method per module, and one explicit table of their names. A device that reads a collection needs the names
alone, so a method is imported when it is looked up; methods need numpy.

    consistent("norm_sub", estimates, Noise(n=10_000, own=0.6, other=0.1, exclusive=False))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldpbeam.consistency.base import FloatArray, Method, Noise

__all__ = ["METHODS", "NAMES", "FloatArray", "Method", "Noise", "consistent"]

NAMES = (
    "none",
    "base_pos",
    "base_cut",
    "norm",
    "norm_mul",
    "norm_cut",
    "norm_sub",
    "mle_apx",
    "power",
    "power_ns",
    "mle",
)
"""Every method by the name that users write: the module of that name has it, in capitals."""


class _Methods(Mapping[str, "Method"]):
    def __getitem__(self, name: str) -> Method:
        if name not in NAMES:
            raise KeyError(name)
        method: Method = getattr(import_module(f"{__name__}.{name}"), name.upper())
        return method

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


METHODS: Mapping[str, Method] = _Methods()
"""Every method by its name."""


def consistent(name: str, estimates: FloatArray, noise: Noise) -> FloatArray:
    """Apply the method of that name; the result is a new array.

    Raises:
        ValueError: there is no method of that name.
    """
    method = METHODS.get(name)
    if method is None:
        raise ValueError(f"consistency: unknown method {name!r}; known are {', '.join(NAMES)}")
    return method.apply(estimates, noise)


def __getattr__(name: str) -> Any:
    """The types of :mod:`ldpbeam.consistency.base`, which import numpy."""
    if name in {"FloatArray", "Method", "Noise"}:
        return getattr(import_module(f"{__name__}.base"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
