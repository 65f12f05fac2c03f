"""LIFE: constructors, closing, options, messages and secrets."""

from __future__ import annotations

from tidegate.conformance.checks.life import (
    channel,
    opened,
    optional,
    said,
)

__all__ = [
    "channel",
    "opened",
    "optional",
    "said",
]
