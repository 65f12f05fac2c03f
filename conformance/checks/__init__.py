"""The rules and how they are tested, a module for each area.  Importing this makes them all."""

from __future__ import annotations

from tidegate.conformance.checks import align, read, split

__all__ = ["align", "read", "split"]
