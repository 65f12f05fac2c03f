"""The rules and how they are tested, a folder for each area.  Importing this makes them all."""

from __future__ import annotations

from tidegate.conformance.checks import (
    align,
    fault,
    life,
    read,
    spark,
    split,
    state,
    time,
    whole,
)

__all__ = [
    "align",
    "fault",
    "life",
    "read",
    "spark",
    "split",
    "state",
    "time",
    "whole",
]
