"""Checks functions of users when windows are described, before the first window fires."""

from __future__ import annotations

import inspect
from datetime import timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

from tidegate.errors import OptionError

ARGUMENTS = {1: "one argument", 2: "two arguments", 3: "three arguments"}


def check_takes(function: Any, count: int, must: str) -> None:
    """Raise OptionError, which begins with ``must``, unless a function takes ``count`` arguments by position."""
    if not callable(function):
        raise OptionError(f"{must} not {function!r}.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions in C have no signature
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        name = getattr(function, "__qualname__", type(function).__name__)
        raise OptionError(f"{must} and {name}{signature} cannot be called with {ARGUMENTS[count]}.") from None


def check_delta(threshold: Any, delta_function: Any, part: str) -> None:
    """Raise OptionError unless a function of two rows gives what can be compared with a threshold."""
    if not isinstance(threshold, Real | Decimal | timedelta) or threshold != threshold:  # noqa: PLR0124 - NaN
        raise OptionError(f"threshold={threshold!r} of {part} must be a number, or a timedelta.")
    check_takes(delta_function, 2, f"delta_function of {part} must be a function of two rows,")
