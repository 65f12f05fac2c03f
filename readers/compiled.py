"""Loops over bytes in machine code: how they are compiled, and the one that several formats share."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import OutOfMemoryError
from tidegate.readers.models import without_jars

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
Bytes: TypeAlias = "npt.NDArray[np.uint8]"
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


def texts_at(
    data: Bytes,
    begins: npt.NDArray[Any],
    lengths: npt.NDArray[Any],
    present: pa.Buffer | None,
    kind: pa.DataType,
) -> pa.Array:
    """Return parts of ``data`` as an array of texts or bytes, which are less than 2 GiB together.

    begins, lengths: of each part, as integers.
    present: a bit for each part, which is 0 if it is null; None: none is.
    """
    ends = np.zeros(len(begins) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    texts = np.empty(int(ends[-1]), np.uint8)
    _gather(data, begins, lengths, texts)
    return pa.Array.from_buffers(kind, len(begins), [present, pa.py_buffer(ends), pa.py_buffer(texts)])


@compiled
def _gather(data: Bytes, begins: npt.NDArray[Any], lengths: npt.NDArray[Any], texts: Bytes) -> None:
    """Copy texts behind each other."""
    at = np.uintp(0)
    for row in range(len(begins)):
        source = np.uintp(begins[row])
        for byte in range(np.uintp(lengths[row])):
            texts[at + byte] = data[source + byte]
        at += np.uintp(lengths[row])
