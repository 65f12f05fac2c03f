"""Finds the error of tidegate in Spark's error of a failed query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate import errors

_RAISED = re.compile(r"tidegate\.errors\.(?P<kind>[A-Za-z]+): (?P<sentence>[^\n]+)")


def cause(error: BaseException) -> errors.TidegateError | None:
    """Return the TidegateError that made Spark raise ``error``, if one did.

    It was raised in another process, so only its text inside Spark's error is left.
    """
    match = _RAISED.search(str(error))
    if match is None:
        return None
    kind = getattr(errors, match["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, errors.TidegateError)):
        return None
    return kind(match["sentence"].strip())


def is_lost_java(error: BaseException) -> bool:
    """Return whether PySpark raised ``error`` because Spark's Java process is gone."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    # If Java dies during a call, the error of the call has nothing from Java.
    was_cut = type(error) is Py4JError and "Trace:" not in str(error)
    return was_cut or isinstance(error, Py4JNetworkError | ConnectionError)


@contextmanager
def lost_java_forgiven() -> Iterator[None]:
    """Ignore a clean-up's error if Java is gone, so that it does not hide the first error."""
    try:
        yield
    except Exception as error:
        if not is_lost_java(error):
            raise
