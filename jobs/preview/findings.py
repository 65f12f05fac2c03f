"""What a preview finds: numbers of splits, and what Spark's own source and tidegate would do with the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidegate.alignment.budget import Budget
from tidegate.alignment.durations import milliseconds
from tidegate.alignment.splits import SplitId
from tidegate.jobs.preview.seen import Seen
from tidegate.jobs.preview.simulated import Prediction


@dataclass(frozen=True, slots=True)
class SplitPreview:
    """One split of a preview.

    first_ms, last_ms: the event time of its first row, and the greatest one, in ms since the epoch; None: it is empty.
    rows: its rows, from its positions and the share of positions that hold a record.
    lost_by_spark: the rows that Spark would drop.
    """

    id: SplitId
    first_ms: int | None
    last_ms: int | None
    rows: int
    lost_by_spark: int


@dataclass(frozen=True, slots=True)
class Findings:
    """What a windowed count would lose with Spark's own source, and what tidegate would do with the same rows.

    reads: the topics and servers, or the path.
    watermark_delay, window: those of the query.
    budget: maxOffsetsPerTrigger, or maxFilesPerTrigger and maxBytesPerTrigger.  Without a limit, Spark reads everything
        in one batch.
    max_drift: the one of the source, or one that gives at least ten batches, of a million rows at most on average.
        None: the source has none, and there are no rows.
    splits: all splits, in the order of their names.
    spark: what Spark's own source would do.
    limited: the same within ``limited_budget``.
    limited_budget: ``budget``, or the size of the largest batch of tidegate.
    tidegate: what tidegate would do with this drift; only its first batches, if there are many.
    """

    reads: str
    watermark_delay: timedelta
    window: timedelta
    budget: Budget
    max_drift: timedelta | None
    splits: tuple[SplitPreview, ...]
    seen: Seen
    spark: Prediction
    limited: Prediction
    limited_budget: Budget
    tidegate: Prediction

    @property
    def rows(self) -> int:
        """The rows of all splits."""
        return sum(split.rows for split in self.splits)

    @property
    def lost_by_spark(self) -> int:
        """The rows that Spark would drop as late."""
        return sum(self.spark.lost.values())

    @property
    def least_delay(self) -> timedelta:
        """The least watermark delay with which Spark would drop none, and a thousandth more."""
        return timedelta(milliseconds=enough(self.spark))

    @property
    def least_limited_delay(self) -> timedelta:
        """The same within ``limited_budget``."""
        return timedelta(milliseconds=enough(self.limited))

    def to_json(self) -> dict[str, Any]:
        """Return what ``tidegate preview --json`` prints, with times in ms since the epoch, and durations in ms."""
        return {
            "rows": self.rows,
            "lostBySpark": self.lost_by_spark,
            "leastDelay": enough(self.spark),
            "openWindows": self.spark.open_windows(enough(self.spark), milliseconds(self.window)),
            "judgedBy": self.seen.judged_by,
            "batches": len(self.spark.rows),
            "window": milliseconds(self.window),
            "watermarkDelay": milliseconds(self.watermark_delay),
            "rowsPerBatch": self.budget.rows,
            "filesPerBatch": self.budget.files,
            "bytesPerBatch": self.budget.bytes,
            "tidegate": {
                "maxDrift": None if self.max_drift is None else milliseconds(self.max_drift),
                "complete": not self.tidegate.left,
                "rows": sum(self.tidegate.rows),
                "batches": len(self.tidegate.rows),
                "largestBatch": max(self.tidegate.rows, default=0),
                "leastDelay": enough(self.tidegate),
                "openWindows": self.tidegate.open_windows(enough(self.tidegate), milliseconds(self.window)),
            },
            "splits": [
                {
                    "id": split.id,
                    "first": split.first_ms,
                    "last": split.last_ms,
                    "rows": split.rows,
                    "lostBySpark": split.lost_by_spark,
                    "sampled": split.id in self.seen.blind,
                }
                for split in self.splits
            ],
        }


def enough(followed: Prediction) -> int:
    """Return the least delay in ms, and a thousandth more: event times between two lookups are interpolated."""
    return followed.least_delay_ms + -(-followed.least_delay_ms // 1000)
