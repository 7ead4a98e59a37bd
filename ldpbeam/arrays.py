"""Names of array types, for annotations only: whoever imports this module has loaded numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bytes", "Floats", "Ints", "Uints"]

Bytes = NDArray[np.uint8]
"""Payloads, a row each, or a code for each payload."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
"""Counts, values, and positions."""
Uints = NDArray[np.uint64]
"""Random words, seeds, and identifiers."""
