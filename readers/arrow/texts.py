"""Columns of texts that are parts of other bytes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.readers.compiled import compiled

Bytes: TypeAlias = "npt.NDArray[np.uint8]"


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
