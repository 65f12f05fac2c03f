"""SPLIT: which splits there are."""

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
