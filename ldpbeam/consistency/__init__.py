"""Stage 5 of 5: consistency, which turns raw unbiased estimates into a histogram.

One explicit table of the methods. A device that reads a collection needs their names alone, so a method is
imported when it is looked up: methods need numpy.

    consistent("norm_sub", estimates, Noise(n=10_000, own=0.6, other=0.1, exclusive=False))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ldpbeam.consistency.base import FloatArray, Method, Noise

__all__ = ["METHODS", "NAMES", "NOT_ADDED_UP", "UNBIASED", "consistent"]

_HOMES = {
    "none": "clip",
    "base_pos": "clip",
    "base_cut": "clip",
    "norm": "norm",
    "norm_mul": "norm",
    "norm_cut": "norm",
    "norm_sub": "norm",
    "mle_apx": "mle",
    "power": "power",
    "power_ns": "power",
    "mle": "mle",
    "bayes": "bayes",
    "ordered": "ordered",
}
"""Every method by the name that users write, and the module that has it, under that name in capitals."""

NAMES = tuple(_HOMES)


UNBIASED = ("none", "norm")
"""Methods whose results may be added up, since they have no bias."""

NOT_ADDED_UP = (
    "Consistent frequencies are not to be added up: each is biased a little, and the biases of many values "
    "add up too. Sums of raw estimates have no bias, if the values were chosen without looking at them."
)
"""What everybody is told who is shown results of a method with a bias."""


class _Methods(Mapping[str, "Method"]):
    def __getitem__(self, name: str) -> Method:
        method: Method = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name.upper())
        return method

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


METHODS: Mapping[str, Method] = _Methods()
"""Every method by its name."""


def consistent(name: str, estimates: FloatArray, noise: Noise) -> FloatArray:
    """Apply the method of that name; the result is a new array."""
    method = METHODS.get(name)
    if method is None:
        raise ValueError(f"consistency: unknown method {name!r}; known are {', '.join(NAMES)}")
    return method.apply(estimates, noise)
