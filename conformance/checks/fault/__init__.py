"""FAULT: while the other side fails."""

from __future__ import annotations

from tidegate.conformance.checks.fault import (
    outage,
    spark,
)

__all__ = [
    "outage",
    "spark",
]
