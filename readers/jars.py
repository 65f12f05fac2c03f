"""Keeps jars out of searches for entry points.

Spark puts the jars of ``--packages`` on Python's path in each process.  A package that looks for its plugins then reads
the names of all files in them.  For AWS's jar, which ``s3a://`` needs, that takes 5 s and 0.3 GB in each process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import TypeAdapter


@contextmanager
def without_jars() -> Iterator[None]:
    """Take jars off Python's path, and put them back at the end, where they were."""
    before = list(sys.path)
    sys.path[:] = [path for path in before if not path.endswith(".jar")]
    try:
        yield
    finally:
        sys.path[:] = before + [path for path in sys.path if path not in before]


def find_plugins_of_pydantic() -> None:
    """Let pydantic find its plugins outside of jars; it looks for them once, when the first model is built.

    Called when a process of Spark's gets a source, and when sources are registered.
    """
    with without_jars():
        TypeAdapter(int)
