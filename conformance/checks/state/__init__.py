"""STATE: what a restart goes on from."""

from __future__ import annotations

from tidegate.conformance.checks.state import (
    restart,
    snapshot,
)

__all__ = [
    "restart",
    "snapshot",
]
