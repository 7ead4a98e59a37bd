"""Names of array types, and the form in which arrays are handed to kernels. Loads no numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Uints = NDArray[np.uint64]
else:  # annotations are not evaluated
    Bytes = Flags = Floats = Ints = Uints = Any

__all__ = ["Bytes", "Flags", "Floats", "Ints", "Uints", "integers", "read_only", "unused_bits"]

_STORED = {1: "u1", 2: "<u2", 4: "<u4"}
_NATIVE = {1: "u1", 2: "=u2", 4: "=u4"}


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A C-contiguous read-only view: kernels then see one array type and compile once."""
    if array.flags.c_contiguous:
        view = array.view()
    else:
        import numpy as np

        view = np.ascontiguousarray(array)
    view.setflags(write=False)
    return view


def integers(payloads: NDArray[np.uint8], width: int) -> NDArray[Any]:
    """The little-endian integers of ``width`` bytes, 1, 2 or 4, that stand in rows: 1-D, in read-only
    form."""
    column = payloads.reshape(-1).view(_STORED[width])
    flags = column.flags
    if not (flags.aligned and flags.c_contiguous and column.dtype.isnative):
        column = column.astype(_NATIVE[width], order="C")
    column.setflags(write=False)
    return column


def unused_bits(bits: int) -> int:
    """The mask of those bits of the last byte that lie behind ``bits`` packed ones."""
    return 0xFF << (bits - 1) % 8 + 1 & 0xFF
