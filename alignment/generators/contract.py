"""The contract of a watermark generator (Flink: FLIP-126, WatermarkGenerator and WatermarkOutput)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


NO_EVENT_TIME = -(2**63)
"""The event time, in ms, of a row without a usable one."""


class WatermarkOutput(ABC):
    """Receives the watermarks and the status of one split from its generator."""

    @abstractmethod
    def emit_watermark(self, watermark_ms: int) -> None:
        """Promise that no more rows with an event time at or before this one will come; in ms since the epoch.

        It marks the split as active.  A watermark that is not greater than the one before it changes nothing.
        """

    @abstractmethod
    def mark_idle(self) -> None:
        """Stop the split from holding back the watermark of the others."""

    @abstractmethod
    def mark_active(self) -> None:
        """Let the split hold back the watermark of the others again."""


class WatermarkGenerator(ABC):
    """Makes the watermark of one split from its rows.

    There is one instance for each split.  Its rows come in order of position, each exactly once, whichever process
    reads them.  Between two processes only what ``snapshot`` returns survives.
    """

    is_divisible: ClassVar[bool] = False
    """Whether a range may be cut into parts, each for a fresh instance that runs beside the others.

    That is correct if the watermark after a range is the greatest of the watermarks after its parts.
    """

    wants_untimed_rows: ClassVar[bool] = False
    """Whether ``on_event`` also sees rows without a usable event time, which then is ``NO_EVENT_TIME``."""

    @abstractmethod
    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Look at the rows of the split that a reader has decoded in one piece.

        batch: at least one row, with the columns that the source delivers.
        event_times: the event time of each row, in ms since the epoch.

        Must not depend on how the rows are divided into batches.
        """

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark periodically instead of per row.

        Called after the rows of a split in a micro-batch.
        """
        del output

    def snapshot(self) -> Mapping[str, Any]:
        """Return the state that another instance needs to continue, as JSON.  It is stored in the checkpoint."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what ``snapshot`` returned.  Called at most once, before anything else."""
        del state


class RowWatermarkGenerator(WatermarkGenerator):
    """Takes rows one by one, for generators that are ported from Flink.  A loop in Python costs a microsecond a row."""

    @abstractmethod
    def on_row(self, row: Mapping[str, Any], event_time_ms: int, output: WatermarkOutput) -> None:
        """Look at one row, with its values by column name (Flink: onEvent)."""

    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Call ``on_row`` for each row."""
        for row, event_time_ms in zip(batch.to_pylist(), event_times.tolist(), strict=True):
            self.on_row(row, event_time_ms, output)


GeneratorSupplier: TypeAlias = Callable[[], WatermarkGenerator]
"""Returns a new generator.  Also called on executors, so it must be picklable."""
