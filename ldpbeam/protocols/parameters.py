"""What a collection may say about its protocol."""

from __future__ import annotations

from dataclasses import dataclass

from ldpbeam.channels.calibration import Calibration
from ldpbeam.errors import CollectionError

__all__ = ["Parameters"]


@dataclass(frozen=True)
class Parameters:
    """What a collection may say about its protocol; each protocol names the keys it takes.

    Attributes:
        epsilon: level of a one-round protocol, spent by every report.
        epsilon_longitudinal: ε∞, level of the memoised round.
        epsilon_first: ε1, level of the first report.
        g: symbols of a hash; None means ``optimal``.
        calibration: which formula sets the second round of symbol channels.
        hash_family: ``linear`` or ``affine``.
        d: buckets a dBitFlip device samples.
        gamma: probability of flipping a memoised bit once more (output perturbation of `004`).
        segment: distance of the points that a value is rounded to, in units of the value.
        p2, q2: given second round of deployed RAPPOR.
    """

    epsilon: float | None = None
    epsilon_longitudinal: float | None = None
    epsilon_first: float | None = None
    g: int | None = None
    calibration: Calibration = Calibration.EXACT
    hash_family: str = "linear"
    d: int | None = None
    gamma: float = 0.0
    segment: int | None = None
    p2: float = 0.75
    q2: float = 0.25

    def level(self, name: str) -> float:
        """The privacy level called ``name``.

        Raises:
            CollectionError: it is missing, or not a number in 0.000001 .. 32.
        """
        value = getattr(self, name)
        # Above 32 a probability differs from 1 by less than the integers can say in two rounds; below
        # 1e-6 the two weights of a large domain would be the same integer and nothing could be estimated.
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 1e-6 <= value <= 32:
            found = "missing" if value is None else f"{value!r}"
            raise CollectionError(
                "E-COLLECTION-EPSILON",
                f"{name} must be a number in 0.000001 .. 32, not {found}",
                remedy=f"Set {name}, for example {name}: 1.0.",
            )
        return float(value)
