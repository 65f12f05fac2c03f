"""From what Spark says of a failed query back to the one sentence that tells why."""

from __future__ import annotations

import re

from tidegate import errors

__all__ = ["cause"]

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
