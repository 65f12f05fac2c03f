"""Watermarks from your own code; docs/watermarks.md explains them.

from tidegate.watermarks import RowWatermarkGenerator, punctuated_by

WatermarkStrategy.for_generator(punctuated_by("header:complete-up-to"))
"""

from __future__ import annotations

from tidegate.alignment.generators import (
    NO_EVENT_TIME,
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    GeneratorSupplier,
    RowWatermarkGenerator,
    WatermarkGenerator,
    WatermarkOutput,
)
from tidegate.readers.event_time.records import Marks, PunctuatedWatermarks, punctuated_by

__all__ = [
    "NO_EVENT_TIME",
    "AscendingTimestampsWatermarks",
    "BoundedOutOfOrdernessWatermarks",
    "GeneratorSupplier",
    "Marks",
    "PunctuatedWatermarks",
    "RowWatermarkGenerator",
    "WatermarkGenerator",
    "WatermarkOutput",
    "punctuated_by",
]
