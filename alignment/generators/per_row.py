"""Generators that look at one row at a time, as Flink's do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.alignment.generators.contract import WatermarkGenerator, WatermarkOutput

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["RowWatermarkGenerator"]


class RowWatermarkGenerator(WatermarkGenerator):
    """Takes rows one by one, for generators that are ported from Flink.  A loop in Python costs a microsecond a row."""

    @abstractmethod
    def on_row(self, row: Mapping[str, Any], event_time_ms: int, output: WatermarkOutput) -> None:
        """Look at one row, with its values by column name (Flink: onEvent)."""

    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Call ``on_row`` for each row."""
        for row, event_time_ms in zip(batch.to_pylist(), event_times.tolist(), strict=True):
            self.on_row(row, event_time_ms, output)
