"""What a collection may say about its protocol: one table of keys.

The reader of collection files, the protobuf message, the digest, the run record and docs/collections.md
follow this table. A new key is a line in :data:`PARAMETER_KEYS`, a field of :class:`Parameters`, and a field
of proto/ldpbeam/wire/collection.proto.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ldpbeam.channels.calibration import Calibration
from ldpbeam.errors import CollectionError
from ldpbeam.hashing import FAMILIES


class ParameterKind(Enum):
    LEVEL = "level"
    """A number in 0.000001 .. 32, a bound on privacy loss."""
    NUMBER = "number"
    """A finite number; the protocol says in which range."""
    INTEGER = "integer"
    """An integer between the key's limits."""
    CHOICE = "choice"
    """One of the key's choices."""


@dataclass(frozen=True)
class ParameterKey:
    """One key of a collection file about the protocol, a field of :class:`Parameters` with its name."""

    name: str
    kind: ParameterKind
    field: int
    default: Any
    example: str
    least: int = 1
    most: int = (1 << 63) - 1
    choices: tuple[str, ...] = ()
    convert: Callable[[str], Any] = str
    word: str = ""
    resolved: bool = False
    harmless: bool = False


PARAMETER_KEYS: dict[str, ParameterKey] = {
    key.name: key
    for key in (
        ParameterKey("epsilon", ParameterKind.LEVEL, 5, None, "1.0"),
        ParameterKey("epsilon_longitudinal", ParameterKind.LEVEL, 6, None, "1.0"),
        ParameterKey("epsilon_first", ParameterKind.LEVEL, 7, None, "1.0"),
        ParameterKey(
            "g", ParameterKind.INTEGER, 8, None, "2", 2, 1 << 16, word="optimal", resolved=True, harmless=True
        ),
        ParameterKey(
            "calibration",
            ParameterKind.CHOICE,
            9,
            Calibration.EXACT,
            "published",
            choices=tuple(one.value for one in Calibration),
            convert=Calibration,
            harmless=True,
        ),
        ParameterKey(
            "hash_family",
            ParameterKind.CHOICE,
            10,
            "linear",
            "affine",
            choices=tuple(FAMILIES),
            harmless=True,
        ),
        ParameterKey("d", ParameterKind.INTEGER, 12, None, "1", resolved=True),
        ParameterKey("p2", ParameterKind.NUMBER, 13, 0.75, "0.75", resolved=True),
        ParameterKey("q2", ParameterKind.NUMBER, 14, 0.25, "0.25", resolved=True),
        ParameterKey("gamma", ParameterKind.NUMBER, 15, 0.0, "0.2", resolved=True),
        ParameterKey("segment", ParameterKind.INTEGER, 16, None, "3600", resolved=True),
        ParameterKey("w", ParameterKind.INTEGER, 20, None, "2", resolved=True),
    )
}
"""Every key that a protocol may take, in the order of the collection file."""

LEVELS = tuple(name for name, key in PARAMETER_KEYS.items() if key.kind is ParameterKind.LEVEL)
"""Names of the privacy levels."""


@dataclass(frozen=True)
class Parameters:
    """What a collection says about its protocol; each protocol names the keys it takes.

    Attributes:
        epsilon: level of a one-round protocol, spent by every report.
        epsilon_longitudinal: ε∞, level of the memoised round.
        epsilon_first: ε1, level of the first report.
        g: symbols of a hash; None means ``optimal``.
        calibration: which formula sets the second round of symbol channels.
        hash_family: ``linear`` or ``affine``; ``interval`` for the distribution over values in an order.
        d: buckets a dBitFlip device samples.
        gamma: probability of flipping a memoised bit once more (Microsoft's output perturbation).
        segment: distance of the points that a value is rounded to, in units of the value.
        w: values that a subset has; None means the w that is best for rare values.
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
    w: int | None = None
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
            text = "missing" if value is None else f"{value!r}"
            raise CollectionError(
                "E-COLLECTION-VALUE",
                f"{name} must be a number in 0.000001 .. 32, not {text}",
                key=name,
                remedy=f"Set {name}, for example {name}: {PARAMETER_KEYS[name].example}.",
            )
        return float(value)
