"""TIME: watermark and event time."""

from __future__ import annotations

from tidegate.conformance.checks.time import (
    bad,
    generators,
    index,
    left_out,
    watermark,
)

__all__ = [
    "bad",
    "generators",
    "index",
    "left_out",
    "watermark",
]
