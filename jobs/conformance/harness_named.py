"""Finds a harness by its name on the command line, MODULE:NAME."""

from __future__ import annotations

import pkgutil
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tidegate.conformance.factories import factory_from
from tidegate.conformance.harness import Harness, HarnessFactory
from tidegate.errors import OptionError, did_you_mean

__all__ = ["harness_named"]


def harness_named(name: str) -> HarnessFactory:
    """Import the named harness, which may be in the current folder.

    Raises OptionError, one sentence with the nearest name, for a missing module or attribute.  Also raises it for a
    module that fails on import, and for an object that is no harness.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise OptionError(f"{name!r} names no harness; expected MODULE:HARNESS, such as mypkg.testing:OutboxHarness")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _module(module_name)
    if not hasattr(module, attribute):
        raise OptionError(f"{module_name} has no {attribute}{did_you_mean(attribute, _harnesses(module))}")
    return factory_from(getattr(module, attribute), name)


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            nearest = did_you_mean(error.name, _siblings(error.name))
            raise OptionError(f"there is no module {error.name!r} here or where Python looks{nearest}") from None
        raise OptionError(_failed(name, error)) from error
    except Exception as error:
        raise OptionError(_failed(name, error)) from error


def _failed(name: str, error: Exception) -> str:
    """Return a sentence with the place in the author's code where the import failed."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
    return f"importing {name!r} fails: {type(error).__name__} in {file}, line {line}: {error}"


def _siblings(name: str) -> list[str]:
    """Return the modules next to a missing one: in its package, or in the current folder."""
    package, dot, _ = name.rpartition(".")
    path = getattr(sys.modules[package], "__path__", []) if dot else [str(Path.cwd())]  # a module has none
    return [package + dot + module.name for module in pkgutil.iter_modules(path)]


def _harnesses(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, Harness) and value is not Harness:
            yield name
