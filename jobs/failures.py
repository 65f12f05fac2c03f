"""From what Spark says of a failed query back to the one sentence that tells why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate import errors

__all__ = ["cause", "is_lost_java", "lost_java_forgiven"]

_RAISED = re.compile(r"tidegate\.errors\.(?P<kind>[A-Za-z]+): (?P<sentence>[^\n]+)")


def cause(error: BaseException) -> errors.TidegateError | None:
    """Return the TidegateError that made Spark raise ``error``; None: it was something else.

    It was raised in another process, so only its text, somewhere in Spark's own, is left of it.
    """
    found = _RAISED.search(str(error))
    if found is None:
        return None
    kind = getattr(errors, found["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, errors.TidegateError)):
        return None
    return kind(found["sentence"].strip())


def is_lost_java(error: BaseException) -> bool:
    """Tell whether PySpark raised ``error`` because it no longer reaches Spark's Java process."""
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, Py4JNetworkError | ConnectionError)


@contextmanager
def lost_java_forgiven() -> Iterator[None]:
    """Let a clean-up pass that has nothing left to clean, so that it does not hide what went before."""
    try:
        yield
    except Exception as error:
        if not is_lost_java(error):
            raise
