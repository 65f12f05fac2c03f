"""LIFE: what is opened, closed, said and hidden."""

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
