"""Finds a harness by its name on the command line, MODULE:NAME."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tidegate.conformance.harness import HarnessFactory
from tidegate.errors import OptionError, did_you_mean

__all__ = ["harness_named"]


def harness_named(name: str) -> HarnessFactory:
    """Import the named harness, which may be in the current folder.

    Raises OptionError, one sentence, for a missing module or attribute, and for a module that fails on import.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise OptionError(f"{name!r} names no harness; expected MODULE:HARNESS, such as mypkg.testing:OutboxHarness")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _module(module_name)
    if not hasattr(module, attribute):
        raise OptionError(f"{module_name} has no {attribute}{did_you_mean(attribute, vars(module))}")
    harness: HarnessFactory = getattr(module, attribute)
    return harness


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise OptionError(f"there is no module {error.name!r} here or where Python looks") from None
        last = traceback.extract_tb(error.__traceback__)[-1]  # where the author's code failed
        file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
        raise OptionError(
            f"importing {name!r} fails: {type(error).__name__} in {file}, line {line}: {error}"
        ) from error
