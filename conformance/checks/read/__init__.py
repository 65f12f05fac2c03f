"""READ: the rows of a range."""

from __future__ import annotations

from tidegate.conformance.checks.read import (
    again,
    batches,
    deleted,
    ranges,
    set_aside,
    values,
)

__all__ = [
    "again",
    "batches",
    "deleted",
    "ranges",
    "set_aside",
    "values",
]
