"""Checks functions of users when windows are described, before the first window fires."""

from __future__ import annotations

import inspect
from typing import Any

from tidegate.errors import OptionError

__all__ = ["check_takes"]

ARGUMENTS = {1: "one argument", 2: "two arguments", 3: "three arguments"}


def check_takes(function: Any, count: int, must: str) -> None:
    """Raise OptionError unless a function can be called with so many arguments by position.

    must: what it must be, as the beginning of a sentence: "gap= of Sessions must be a function of a row,".
    """
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
