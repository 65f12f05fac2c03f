"""The base of models of pydantic, and Python's path without jars.

Spark puts the jars of ``--packages`` on the path of each Python process.  A package that looks for plugins by entry
points then reads the names of all files in them.  For AWS's jar, which ``s3a://`` needs, that takes 5 s and 0.3 GB.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel


@contextmanager
def without_jars() -> Iterator[None]:
    """Take jars off Python's path, and put them back at the end, where they were."""
    before = list(sys.path)
    sys.path[:] = [path for path in before if not str(path).endswith(".jar")]
    try:
        yield
    finally:
        sys.path[:] = before + [path for path in sys.path if path not in before]


with without_jars():

    class Model(BaseModel):
        """The base of all models.  pydantic looks for its plugins once, when the first model is built: this one."""
