"""Stage 5 of 5: consistency, which turns raw unbiased estimates into a histogram.

One method per module and one explicit table. Server side only: it imports numpy.

    consistent("norm_sub", estimates, Noise(n=10_000, own=0.6, other=0.1, exclusive=False))
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ldpbeam.consistency.base import FloatArray, Method, Noise
from ldpbeam.consistency.base_cut import BASE_CUT
from ldpbeam.consistency.base_pos import BASE_POS
from ldpbeam.consistency.mle import MLE
from ldpbeam.consistency.mle_apx import MLE_APX
from ldpbeam.consistency.none import NONE
from ldpbeam.consistency.norm import NORM
from ldpbeam.consistency.norm_cut import NORM_CUT
from ldpbeam.consistency.norm_mul import NORM_MUL
from ldpbeam.consistency.norm_sub import NORM_SUB
from ldpbeam.consistency.power import POWER
from ldpbeam.consistency.power_ns import POWER_NS

__all__ = ["METHODS", "FloatArray", "Method", "Noise", "consistent"]

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "none": NONE,
        "base_pos": BASE_POS,
        "base_cut": BASE_CUT,
        "norm": NORM,
        "norm_mul": NORM_MUL,
        "norm_cut": NORM_CUT,
        "norm_sub": NORM_SUB,
        "mle_apx": MLE_APX,
        "power": POWER,
        "power_ns": POWER_NS,
        "mle": MLE,
    }
)
"""Every method by the name that users write."""


def consistent(name: str, estimates: FloatArray, noise: Noise) -> FloatArray:
    """Apply the method of that name; the result is a new array."""
    method = METHODS.get(name)
    if method is None:
        raise ValueError(f"consistency: unknown method {name!r}; known are {', '.join(METHODS)}")
    return method.apply(estimates, noise)
