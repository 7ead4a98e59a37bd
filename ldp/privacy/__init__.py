"""What a device can lose: guarantees as values, computed from the integer probabilities."""

from ldp.privacy.guarantee import Guarantee

__all__ = ["Guarantee"]
