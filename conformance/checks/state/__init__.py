"""STATE: restarts and snapshots."""

from __future__ import annotations

from tidegate.conformance.checks.state import (
    restart,
    snapshot,
)

__all__ = [
    "restart",
    "snapshot",
]
