"""LIFE: constructors, closing, options, messages and secrets."""

from __future__ import annotations

from tidegate.conformance.checks.life import (
    opened,
    optional,
    said,
)

__all__ = [
    "opened",
    "optional",
    "said",
]
