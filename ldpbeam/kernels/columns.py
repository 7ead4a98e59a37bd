"""The form in which arrays are handed to kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_only", "unused_bits"]


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A C-contiguous read-only view: kernels then see one array type and compile once."""
    import numpy as np  # a device loads the protocols, and no numpy

    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def unused_bits(bits: int) -> int:
    """The mask of those bits of the last byte that lie behind ``bits`` packed ones."""
    return 0xFF << (bits - 1) % 8 + 1 & 0xFF
