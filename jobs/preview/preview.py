"""The preview of a source: what Spark's own source would lose, and what tidegate would do with the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidegate.alignment.durations import milliseconds
from tidegate.alignment.splits import SplitId
from tidegate.errors import OptionError
from tidegate.jobs.figures import count
from tidegate.jobs.pages.trace import split_order
from tidegate.jobs.preview.aligned import aligned
from tidegate.jobs.preview.looks import Seen, look
from tidegate.jobs.preview.spark import Outcome, by_backlog, outcome
from tidegate.sources.kafka.source import KafkaSource
from tidegate.sources.source import Source

_MOST_BATCHES = 100_000
_MOST_ROWS = 1_000_000  # of a batch that is suggested
_DRIFTS = [timedelta(minutes=n) for n in (1, 5, 15, 30, 60, 120, 360, 720, 1440, 2880, 10_080)]


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
class Preview:
    """What a windowed count would lose with Spark's own source, and what tidegate would do with the same rows.

    reads: the topics and servers.
    watermark_delay, window: those of the query.
    rows_per_batch: maxOffsetsPerTrigger; None: Spark reads everything in one batch.
    max_drift: the one of the source, or one that gives at least ten batches, of a million rows at most on average.
        None: the source has none, and there are no rows.
    splits: all splits, in the order of their names.
    spark: what Spark's own source would do.
    limited: the same with batches of ``limited_rows``.
    limited_rows: ``rows_per_batch``, or the size of the largest batch of tidegate.
    tidegate: what tidegate would do with this drift; only its first batches, if there are many.
    """

    reads: str
    watermark_delay: timedelta
    window: timedelta
    rows_per_batch: int | None
    max_drift: timedelta | None
    splits: tuple[SplitPreview, ...]
    seen: Seen
    spark: Outcome
    limited: Outcome
    limited_rows: int
    tidegate: Outcome

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
        return timedelta(milliseconds=_enough(self.spark))

    @property
    def least_limited_delay(self) -> timedelta:
        """The same in batches of ``limited_rows``."""
        return timedelta(milliseconds=_enough(self.limited))

    def _repr_html_(self) -> str:
        from tidegate.jobs.preview.page import notebook  # it needs this class

        return notebook(self)

    def to_json(self) -> dict[str, Any]:
        """Return what ``tidegate preview --json`` prints, with times in ms since the epoch, and durations in ms."""
        return {
            "rows": self.rows,
            "lostBySpark": self.lost_by_spark,
            "leastDelay": _enough(self.spark),
            "openWindows": self.spark.open_windows(_enough(self.spark), milliseconds(self.window)),
            "batches": len(self.spark.rows),
            "window": milliseconds(self.window),
            "watermarkDelay": milliseconds(self.watermark_delay),
            "rowsPerBatch": self.rows_per_batch,
            "tidegate": {
                "maxDrift": None if self.max_drift is None else milliseconds(self.max_drift),
                "complete": not self.tidegate.left,
                "rows": sum(self.tidegate.rows),
                "batches": len(self.tidegate.rows),
                "largestBatch": max(self.tidegate.rows, default=0),
                "leastDelay": _enough(self.tidegate),
                "openWindows": self.tidegate.open_windows(_enough(self.tidegate), milliseconds(self.window)),
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


def preview(
    source: Source, *, watermark_delay: timedelta = timedelta(minutes=10), window: timedelta = timedelta(minutes=5)
) -> Preview:
    """Return what a windowed count of a Kafka source would lose in Spark, without Spark and without reading it all.

    It asks Kafka's time index some 200 times, at most 200 times a second, and reads a few records of each partition.
    It needs the rights to describe and read the topics, and no consumer group.

    source: its starts and ends, ``max_offsets_per_trigger`` and the max drift count.  Event times are the timestamps of
        records.
    watermark_delay: that of ``withWatermark``.
    window: the length of the tumbling windows, in append mode.

    Raises OptionError for another source, and ConnectorError if Kafka cannot be reached.
    """
    if window < timedelta(milliseconds=1):
        raise OptionError(f"the window is {window.total_seconds():g} s, but it must be at least 1 ms")
    if watermark_delay < timedelta(0):
        raise OptionError(f"the watermark delay is {watermark_delay.total_seconds():g} s, but it must be at least 0")
    seen = look(source)
    histories, limit = seen.histories, source.budget.rows
    positions = sum(history.end - history.start for history in histories.values())
    if limit is not None and positions > limit * _MOST_BATCHES:
        raise OptionError(
            f"{count(positions)} rows in batches of {count(limit)} are more than {count(_MOST_BATCHES)} batches; "
            "preview larger batches (maxOffsetsPerTrigger)"
        )
    max_drift = source.watermarks.max_drift or _suggested_drift(seen, min(limit or _MOST_ROWS, _MOST_ROWS))
    times = milliseconds(watermark_delay), milliseconds(window)
    ours = outcome(histories, aligned(histories, milliseconds(max_drift or timedelta(0)), limit), *times)
    spark = outcome(histories, by_backlog(histories, limit), *times)
    limited_rows = limit or max(1, -(-positions // _MOST_BATCHES), *ours.rows)
    limited = spark if limit is not None else outcome(histories, by_backlog(histories, limited_rows), *times)
    splits = {
        **{split: SplitPreview(split, None, None, 0, 0) for split in seen.empty},
        **{
            split: SplitPreview(split, int(history.times_ms[0]), history.last_ms, history.rows, spark.lost[split])
            for split, history in histories.items()
        },
    }
    reads = source.reads if isinstance(source, KafkaSource) else ""
    ordered = tuple(splits[split] for split in sorted(splits, key=split_order))
    return Preview(reads, watermark_delay, window, limit, max_drift, ordered, seen, spark, limited, limited_rows, ours)


def _enough(followed: Outcome) -> int:
    """Return the least delay in ms, and a thousandth more: event times between two lookups are interpolated."""
    return followed.least_delay_ms + -(-followed.least_delay_ms // 1000)


def _suggested_drift(seen: Seen, most_rows: int) -> timedelta | None:
    """Return the greatest usual drift that makes ten batches, of at most so many rows on average; None: no rows."""
    histories = seen.histories.values()
    if not histories:
        return None
    rows = sum(history.rows for history in histories)
    span_ms = max(history.last_ms for history in histories) - min(int(history.times_ms.min()) for history in histories)
    least = max(10, rows / most_rows)
    return max((drift for drift in _DRIFTS if milliseconds(drift) * least <= span_ms), default=_DRIFTS[0])
