"""Files that commands write: whether they can be written is known before anything else is done."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.errors import OptionError


def writable(option: str, path: Path) -> Path:
    """Return the path of a file, and make its folder.

    Raises OptionError, which names the option, if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{option} is {str(path)!r}, whose folder cannot be made: {error}") from None
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OptionError(f"{option} is {str(path)!r}, which cannot be written")
    return path
