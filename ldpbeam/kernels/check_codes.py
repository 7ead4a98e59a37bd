"""What the check of a payload found, one byte per payload: the same codes in kernels, protocols and stages.

The codes stand beside the kernels because compiled kernels hold them as constants: a kernel that was compiled
with other codes is then not used again (:mod:`ldpbeam.kernels.jit`).
"""

from __future__ import annotations

from enum import IntEnum

from ldpbeam.errors import Reason


class CheckCode(IntEnum):
    """A sound payload, or why it is refused; each refusal has the name of its :class:`Reason`."""

    SOUND = 0
    VALUE_OUT_OF_RANGE = 1
    UNUSED_BITS = 2
    REPEATED_INDEX = 3
    DEGENERATE = 4

    @property
    def reason(self) -> Reason | None:
        """The reason that a rejection states; None for a sound payload."""
        return None if self is CheckCode.SOUND else Reason[self.name]
