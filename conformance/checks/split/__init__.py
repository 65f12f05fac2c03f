"""SPLIT: discovery of splits."""

from __future__ import annotations

from tidegate.conformance.checks.split import (
    changes,
    deleted,
    names,
)

__all__ = [
    "changes",
    "deleted",
    "names",
]
