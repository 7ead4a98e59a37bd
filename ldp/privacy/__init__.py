"""What a device can lose: guarantees as values, computed from the integer probabilities."""

from ldp.privacy.counters import theorem_5
from ldp.privacy.guarantee import Guarantee

__all__ = ["Guarantee", "theorem_5"]
