"""SPARK: queries that Spark runs."""

from __future__ import annotations

from tidegate.conformance.checks.spark import (
    elsewhere,
    planning,
    queries,
)

__all__ = [
    "elsewhere",
    "planning",
    "queries",
]
