"""Hides a time index: a planner must work without one where the index is blind."""

from __future__ import annotations

from typing import Any

from tidegate.enumerators.contract import Json
from tidegate.sources.contract import Source

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
        return _WithoutLookup(self._source.enumerator(state))


class _WithoutLookup:
    def __init__(self, enumerator: Any) -> None:
        self._enumerator = enumerator

    def __getattr__(self, name: str) -> Any:
        if name == "lookup":
            raise AttributeError(name)
        return getattr(self._enumerator, name)
