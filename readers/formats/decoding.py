"""Lets errors of decoding name the object, for every format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.decompression import OutOfMemoryError

__all__ = ["decoding"]


@contextmanager
def decoding(address: str, format_name: str) -> Iterator[None]:
    """Let errors of decoding name the object at an address.

    Raises CorruptDataError for one, and for errors of Arrow; OutOfMemoryError for one; other errors pass.
    """
    try:
        yield
    except CorruptDataError as problem:
        raise CorruptDataError(f"{address} cannot be read: {problem}") from None
    except OutOfMemoryError as problem:
        raise OutOfMemoryError(f"{address} cannot be read: {problem}") from None
    except (pa.ArrowMemoryError, pa.ArrowCancelled):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise CorruptDataError(f"{address} is no {format_name} that can be read: {problem}") from problem
