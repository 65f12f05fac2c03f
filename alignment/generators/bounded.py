"""Watermarks from the greatest event time so far (Flink: BoundedOutOfOrdernessWatermarks)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidegate.alignment.durations import milliseconds
from tidegate.alignment.generators.contract import WatermarkGenerator, WatermarkOutput
from tidegate.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Emits the greatest event time so far, minus the disorder, minus 1 ms.

    max_out_of_orderness: how far a row may be behind the greatest event time before it.

    Raises OptionError if it is negative, or no timedelta.
    """

    is_divisible = True

    def __init__(self, max_out_of_orderness: timedelta) -> None:
        if not isinstance(max_out_of_orderness, timedelta):
            raise OptionError(
                f"max_out_of_orderness is {max_out_of_orderness!r}, but it must be a timedelta, such as "
                "timedelta(seconds=10)"
            )
        if max_out_of_orderness < timedelta(0):
            raise OptionError(f"max_out_of_orderness is {max_out_of_orderness}, but it must be zero or more")
        self._disorder_ms = milliseconds(max_out_of_orderness)
        self._greatest_ms: int | None = None

    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Remember the greatest event time."""
        del batch, output
        if len(event_times):
            greatest_ms = int(event_times.max())
            self._greatest_ms = greatest_ms if self._greatest_ms is None else max(greatest_ms, self._greatest_ms)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the watermark, once there was a row."""
        if self._greatest_ms is not None:
            output.emit_watermark(self._greatest_ms - self._disorder_ms - 1)

    def snapshot(self) -> Mapping[str, Any]:
        """Return the greatest event time."""
        return {} if self._greatest_ms is None else {"greatest": self._greatest_ms}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the greatest event time from before."""
        self._greatest_ms = state.get("greatest")


class AscendingTimestampsWatermarks(BoundedOutOfOrdernessWatermarks):
    """Assumes that event times never go back within a split (Flink: AscendingTimestampsWatermarks)."""

    def __init__(self) -> None:
        super().__init__(timedelta(0))
