"""``pyarrow.compute``, imported at its first use.

Its import takes a tenth of the start of a planner, which may never need it: it plans Kafka by record timestamps.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """Return a member of ``pyarrow.compute``; called once for each name."""
    member = getattr(import_module("pyarrow.compute"), name)
    globals()[name] = member
    return member
