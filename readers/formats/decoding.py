"""Adds the address of the object to errors of decoding, for every format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tidegate.errors import BadRecordError, CorruptDataError, OutOfMemoryError

__all__ = ["decoding"]


@contextmanager
def decoding(address: str, format_name: str) -> Iterator[None]:
    """Add an object's address to errors of decoding.

    Raises CorruptDataError for an error of Arrow, an OSError and a UnicodeDecodeError.  Raises an error of the same
    class for a BadRecordError, a CorruptDataError and an OutOfMemoryError.  Other errors pass, and so do Arrow's errors
    of memory and cancellation.
    """
    try:
        yield
    except (BadRecordError, CorruptDataError, OutOfMemoryError) as problem:
        if str(problem).startswith(address):
            raise
        raise type(problem)(f"{address} cannot be read: {problem}") from None
    except (pa.ArrowMemoryError, pa.ArrowCancelled):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise CorruptDataError(f"{address} is no {format_name} that can be read: {problem}") from problem
