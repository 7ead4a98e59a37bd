"""How every kernel is compiled, decided once.

``nogil`` lets Beam's worker threads count at the same time. No fast-math: results are integers and must be
the same everywhere. No ``parallel``: with several Beam threads numba's default threading layer aborts the
process. What is compiled is kept for later processes where that is safe, see :mod:`ldpbeam.kernels._cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
from numba.core import config

from ldpbeam.kernels._cache import KernelCache, cache_folder

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., object])

_FOLDER = cache_folder()


def kernel(function: F) -> F:
    """Compile a loop on first use; dtypes are fixed at the edge, since each new one compiles again."""
    compiled = numba.njit(nogil=True)(function)
    if _FOLDER is not None:
        # Not njit(cache=True): its folder is one for all users of numba in the process, its faults are fatal.
        others, config.CACHE_DIR = config.CACHE_DIR, str(_FOLDER)
        try:
            compiled._cache = KernelCache(function)
        finally:
            config.CACHE_DIR = others
    return cast(F, compiled)
