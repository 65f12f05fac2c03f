"""What is remarkable about each split of a preview, and the options that it suggests.  Pure logic: to text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tidegate.alignment.durations import milliseconds
from tidegate.alignment.splits import SplitId
from tidegate.jobs.figures import clock_time, count, share, span

if TYPE_CHECKING:
    from tidegate.jobs.preview.history import History
    from tidegate.jobs.preview.preview import Preview

__all__ = ["Suggestion", "remarks", "shown_span", "suggestions", "verdict"]

_DAY_MS = 86_400_000
_MUCH = 20  # the part of all event time that is remarkable
_FEW = 1000  # the part of all rows that does not widen the picture
_LEAST_MS = 60_000  # of disorder: samples do not see all
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"), (1, "millisecond"))


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A line to paste, and the reason for it."""

    line: str
    reason: str


def verdict(found: Preview) -> str:
    """Return one sentence on what Spark's own source would lose."""
    if not found.rows:
        return "The topic is empty."
    lost, limited = found.lost_by_spark, sum(found.limited.lost.values())
    if found.rows_per_batch is not None:
        if not lost:
            return f"Spark's own source would lose none of {count(found.rows)} rows"
        return f"Spark's own source would lose {count(lost)} of {count(found.rows)} rows ({share(lost, found.rows)})"
    largest = count(max(found.tidegate.rows, default=1))
    return (
        f"Spark's own source would read all {count(found.rows)} rows in one batch, and lose "
        f"{count(lost) if lost else 'none'}; in batches of {largest} rows it would lose {count(limited)}"
    )


def shown_span(found: Preview) -> tuple[int, int]:
    """Return the event times, in ms, between which nearly all rows lie: few rows far away are left out."""
    every = [(part.end - part.start, part) for history in found.seen.histories.values() for part in history.slices]
    few = sum(rows for rows, _ in every) // _FEW
    times = [(part.times_ms(part.start, part.end), rows) for rows, part in every]

    def past_few(sorted_times: Iterable[tuple[int, int]]) -> int:
        seen = 0
        for time_ms, rows in sorted_times:
            seen += rows
            if seen > few:
                return time_ms
        raise AssertionError("all rows are few")

    begin_ms = past_few(sorted((low, rows) for (low, _), rows in times))
    return begin_ms, past_few(sorted(((high, rows) for (_, high), rows in times), reverse=True))


def remarks(found: Preview) -> dict[SplitId, list[str]]:
    """Return what is remarkable about each split."""
    if not found.seen.histories:
        return {split.id: ["empty"] for split in found.splits}
    begin_ms, end_ms = shown_span(found)
    return {
        split.id: list(_of_split(found, found.seen.histories[split.id], begin_ms, end_ms))
        + (["the time index is blind here: figures come from samples"] if split.id in found.seen.blind else [])
        if split.id in found.seen.histories
        else ["empty"]
        for split in found.splits
    }


def _of_split(found: Preview, history: History, begin_ms: int, end_ms: int) -> Iterator[str]:
    much_ms = max(1, (end_ms - begin_ms) // _MUCH)
    if history.first_ms - begin_ms > much_ms:
        yield f"begins {span(history.first_ms - begin_ms)} after the first"
    if end_ms - history.last_ms > much_ms:
        yield f"quiet for the last {span(end_ms - history.last_ms)}"
    gaps = [(after.begin_ms - before.end_ms, before.end_ms) for before, after in pairwise(history.slices)]
    longest_ms, from_ms = max(gaps, default=(0, 0))
    if longest_ms > much_ms and from_ms >= begin_ms and from_ms + longest_ms <= end_ms:
        yield f"a gap of {span(longest_ms)} from {clock_time(from_ms)}"
    if history.last_ms > found.seen.now_ms + _DAY_MS:
        yield f"records from the future, up to {clock_time(history.last_ms)}"
    if history.least_ms(history.start, history.end) <= _DAY_MS:
        yield "records at 0"
    elif history.worst_lag_ms:
        late = sum(part for lag_ms, part in history.lags if lag_ms)
        yield f"{share(round(1000 * late) or 1, 1000)} of the rows out of order, by up to {span(history.worst_lag_ms)}"
    if history.density < 1:
        yield f"{share(round(1000 * history.density), 1000)} of the offsets hold a record (compaction, transactions)"


def suggestions(found: Preview) -> list[Suggestion]:
    """Return the options of tidegate and the delay that suit these rows."""
    disorder_ms = max((history.worst_lag_ms for history in found.seen.histories.values()), default=0)
    disorder = _duration(max(disorder_ms, _LEAST_MS))
    drift_ms, rows = milliseconds(found.max_drift), found.tidegate.rows
    largest = max(rows, default=1)
    limit = found.rows_per_batch or _rounded_up(largest)
    return [
        Suggestion(
            f'.option("maxDrift", "{_duration(drift_ms)}")',
            f"{count(len(rows))} batches of {count(sum(rows) / max(1, len(rows)))} rows on average, "
            f"at most {span(found.tidegate.lead_ms)} ahead of the slowest partition",
        ),
        Suggestion(
            f'.option("maxOffsetsPerTrigger", "{limit}")',
            f"the largest batch has {count(largest)} rows"
            + (f", about {largest * found.seen.bytes_per_row / 2**20:,.1f} MiB" if found.seen.bytes_per_row else ""),
        ),
        Suggestion(
            f'.option("maxOutOfOrderness", "{disorder}")',
            f"the sampled rows are out of order by up to {span(disorder_ms)}; a minute is the least for the others",
        ),
        Suggestion(
            f'.withWatermark("timestamp", "{_duration(max(disorder_ms, found.tidegate.least_delay_ms, _LEAST_MS))}")',
            f"a back-fill loses nothing with it; Spark's own source needs "
            f"{span(found.limited.least_delay_ms)}. On a live topic, add maxDrift",
        ),
    ]


def _duration(length_ms: int) -> str:
    """Return a duration of at least a second as Spark writes it, rounded up where that changes little."""
    unit_ms, name = next(
        (unit_ms, name) for unit_ms, name in _UNITS if length_ms % unit_ms == 0 or length_ms >= 10 * unit_ms
    )
    number = -(-length_ms // unit_ms)
    return f"{number} {name}{'' if number == 1 else 's'}"


def _rounded_up(number: int) -> int:
    """Return a number with two digits and zeros, at or above another."""
    unit = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // unit) * unit
