"""What makes harnesses: told from what does not, with a sentence for those who hand over the wrong thing."""

from __future__ import annotations

import inspect
from typing import Any

from tidegate.conformance.harness import Harness, HarnessFactory
from tidegate.errors import OptionError

__all__ = ["factory_from"]


def factory_from(found: Any, where: str) -> HarnessFactory:
    """Return what was found, as a HarnessFactory.

    where: what names it, at the beginning of the sentence.

    Raises OptionError for what makes no harness, as far as that can be told without calling it.
    """
    if isinstance(found, Harness):
        made = type(found).__name__
        raise OptionError(f"{where} is a {made} that is made already; give what makes it: {made}, or a partial of it")
    if not isinstance(found, type):
        if not callable(found):
            raise OptionError(f"{where} is {_a(type(found).__name__)}, not a Harness")
        factory: HarnessFactory = found
        return factory
    if not issubclass(found, Harness):
        bases = ", ".join(base.__name__ for base in found.__bases__)
        raise OptionError(f"{where} is a class of {bases}, not of Harness")
    if inspect.isabstract(found):
        raise OptionError(f"{where} lacks {' and '.join(f'{name}()' for name in sorted(found.__abstractmethods__))}")
    return found


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"
