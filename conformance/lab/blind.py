"""Hides a time index: a planner must work without one where the index is blind."""

from __future__ import annotations

from typing import Any

from tidegate.enumerators.contract import Json
from tidegate.sources.source import Source

__all__ = ["Blind"]


class Blind:
    """A source whose enumerators cannot look up times."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def as_stream(self) -> Blind:
        """Return the same for a stream."""
        return Blind(self._source.as_stream())

    def enumerator(self, state: Json | None) -> Any:
        """Return an enumerator without lookup()."""
        return _without_lookup(self._source.enumerator(state))


def _without_lookup(enumerator: Any) -> Any:
    # From Python 3.12 on, isinstance() with a protocol does not see what __getattr__ returns.
    names = [name for name in dir(enumerator) if not name.startswith("_") and name != "lookup"]
    return type("WithoutLookup", (), {name: _passed_on(enumerator, name) for name in names})()


def _passed_on(enumerator: Any, name: str) -> property:
    return property(lambda _: getattr(enumerator, name))
