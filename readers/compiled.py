"""Compiles loops over bytes to machine code."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any, TypeVar

from tidegate.errors import OutOfMemoryError
from tidegate.readers.jars import without_jars

try:
    import numba
    from numba.core import entrypoints
except OSError as error:
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        raise
    raise OutOfMemoryError(
        "Numba, which takes 200 MB of memory, cannot be loaded; raise spark.executor.pyspark.memory if it is set, or "
        f"the limit of the process: {error}"
    ) from error

with without_jars():
    entrypoints.init_all()  # type: ignore[no-untyped-call]  # Numba looks for its extensions once
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function to machine code, which runs without Python's global lock.

    The compiled function takes only numbers, arrays and tuples.  The first call compiles, which takes seconds.  Numba
    keeps the result on disk: beside the module or, if that is read-only, in the user's cache folder.
    """
    try:
        loop: Any = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder for the cache can be written, so every process compiles
        loop = numba.njit(nogil=True)(function)
    return loop  # type: ignore[no-any-return]
