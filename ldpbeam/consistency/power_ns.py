"""PowerNS: Power, then Norm-Sub."""

from __future__ import annotations

from ldpbeam.consistency._simplex import project
from ldpbeam.consistency.base import FloatArray, Method, Noise, checked, uniform
from ldpbeam.consistency.power import power


def power_ns(estimates: FloatArray, noise: Noise) -> FloatArray:
    """Apply power, then norm_sub.

    Formula: the projection onto the simplex of the posterior means of `power`. Guarantees:
    non-negative, sums to 1.
    Bias: towards the fitted power law; values below the noise are pulled together.
    Use it when raw utility is poor (noise larger than most frequencies) and frequencies fall off
    like a power law.
    Source: Wang et al., NDSS 2020 ("PowerNS"); the Consistency paper recommends it second, after
    norm_sub. Its PowerNS rows cannot be reproduced by a correct Power: see `power` (docs/maths.md
    correction 7). At n = 0: uniform.
    """
    values = checked(estimates)
    if noise.n == 0:
        return uniform(values.size)
    return project(power(values, noise))


POWER_NS = Method("power_ns", power_ns, True, True, "power, then norm_sub; for very noisy estimates")
