"""Places that commands write to: whether they can is known before anything else is done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.errors import OptionError


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Turn an OSError into an OptionError that names the option and its value."""
    try:
        yield
    except OSError as error:
        raise OptionError(f"{option} is {str(path)!r}, where nothing can be written: {error.strerror}") from error


def writable(option: str, path: Path) -> Path:
    """Return the path of a file, and make its folder.

    Raises OptionError, which names the option, if it cannot be written.
    """
    with writing(option, path):
        path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OptionError(f"{option} is {str(path)!r}, which cannot be written")
    return path
