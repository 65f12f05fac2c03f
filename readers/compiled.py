"""Compiles loops over bytes with Numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["compiled"]

Function = TypeVar("Function", bound="Callable[..., Any]")


def compiled(function: Function) -> Function:
    """Return the function compiled without the interpreter and its lock; it takes numbers, arrays and tuples only.

    The first call compiles, which takes seconds.  Numba keeps the result on disk: beside the module or, if that is
    read-only, in the user's cache folder.
    """
    try:
        loop: Any = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder for the cache can be written: compile in every process
        loop = numba.njit(nogil=True)(function)
    return loop  # type: ignore[no-any-return]
