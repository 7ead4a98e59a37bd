"""How every kernel is compiled, decided once.

``nogil`` lets Beam's worker threads count at the same time. No fast-math: results are integers and must be
the same everywhere. No on-disk cache: numba's is not safe against concurrent workers and stale machine code.
No ``parallel``: with several Beam threads numba's default threading layer aborts the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a loop on first use; dtypes are fixed at the edge, since each new one compiles again."""
    return cast(F, numba.njit(nogil=True)(function))
