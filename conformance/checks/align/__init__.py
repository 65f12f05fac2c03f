"""ALIGN: splits kept together in event time."""

from __future__ import annotations

from tidegate.conformance.checks.align import (
    reach,
    spark,
    trouble,
    waiting,
)

__all__ = [
    "reach",
    "spark",
    "trouble",
    "waiting",
]
