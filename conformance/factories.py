"""Checks that an object makes harnesses, with a clear sentence if it does not."""

from __future__ import annotations

import inspect
from typing import Any

from tidegate.conformance.harness import Harness, HarnessFactory
from tidegate.errors import OptionError

__all__ = ["factory_from"]


def factory_from(value: Any, where: str) -> HarnessFactory:
    """Return an object as a HarnessFactory.

    where: names the object, at the beginning of the sentence.

    Raises OptionError for an object that makes no harness, as far as that is known without a call.
    """
    if isinstance(value, Harness):
        kind = type(value).__name__
        raise OptionError(f"{where} is a {kind} that is made already; give what makes it: {kind}, or a partial of it")
    if not isinstance(value, type):
        if not callable(value):
            raise OptionError(f"{where} is {_a(type(value).__name__)}, not a Harness")
        factory: HarnessFactory = value
        return factory
    if not issubclass(value, Harness):
        bases = ", ".join(base.__name__ for base in value.__bases__)
        raise OptionError(f"{where} is a class of {bases}, not of Harness")
    if inspect.isabstract(value):
        raise OptionError(f"{where} lacks {' and '.join(f'{name}()' for name in sorted(value.__abstractmethods__))}")
    return value


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"
