"""What a preview says of Spark and of each split, and the options that it suggests: as text, and as an HTML page.

Pure logic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.alignment.durations import milliseconds
from tidegate.alignment.splits import SplitId
from tidegate.errors import counted
from tidegate.jobs.figures import clock_time, count, share, span
from tidegate.jobs.pages.chart import columns
from tidegate.jobs.pages.layout import Canvas, figure, key, layout, legend, table, table_row, utc_times
from tidegate.jobs.preview.findings import Findings, SplitPreview
from tidegate.jobs.preview.seen import MUCH, TIMELESS, History, Seen

_DAY_MS = 86_400_000
_LEAST_MS = 60_000  # of disorder: samples do not see all
_UNITS = ((_DAY_MS, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"), (1, "millisecond"))


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A line to paste, and the reason for it."""

    line: str
    reason: str


def verdict(found: Findings) -> str:
    """Return one sentence on what Spark's own source would lose."""
    if not found.rows:
        seen = found.seen
        if not seen.are_objects:
            return f"{found.reads} has {TIMELESS if seen.notes else 'no records'}"
        return f"{found.reads} has no rows with event times"
    lost, alone = sum(found.limited.lost.values()), found.lost_by_spark
    losing = (
        f"lose {count(lost)} of {count(found.rows)} rows ({share(lost, found.rows)})"
        if lost
        else (f"lose none of {count(found.rows)} rows")
    )
    if found.budget == UNLIMITED:
        losing += f" in batches of {amount(found.limited_budget)}, and {count(alone) if alone else 'none'} in one batch"
        losing += " of all"
    return f"Spark's own source would {losing}, judged by {found.seen.judged_by}"


def of_spark(found: Findings) -> str:
    """Return sentences on the batches of Spark's own source, on its watermark, and on what is not judged."""
    passed_ms = found.limited.least_delay_ms - milliseconds(found.watermark_delay)
    return (
        f"Spark's own source: {counted(len(found.limited.rows), 'batch')} of {amount(found.limited_budget)}, at a "
        f"delay of {span(found.watermark_delay)} and windows of {span(found.window)}. "
        + (f"Its watermark passes windows that still get rows by up to {span(passed_ms)}. " if passed_ms > 0 else "")
        + f"The least delay that loses nothing: {_about(found)}{delay(found.least_limited_delay)}."
        + ("" if found.seen.are_objects else " Event times inside of keys, values and headers are not covered.")
    )


def splits(found: Findings) -> str:
    """Return how many splits there are."""
    number = counted(len(found.splits), found.seen.word)
    return f"{counted(found.seen.units, 'object')} in {number}" if found.seen.are_objects else number


def amount(budget: Budget) -> str:
    """Return the limits of a batch as text."""
    limits = (
        None if budget.rows is None else counted(budget.rows, "row"),
        None if budget.files is None else counted(budget.files, "object"),
        None if budget.bytes is None else _size(budget.bytes),
    )
    return " and ".join(filter(None, limits))


def _about(found: Findings) -> str:
    """Return a word for delays that depend on samples: on their times, or on how far they are out of order."""
    seen = found.seen
    return "about " if seen.blind or any(history.disorder_ms for history in seen.histories.values()) else ""


def part(found: Findings) -> str:
    """Return a sentence if tidegate was followed through a part of its batches only; empty: through all."""
    read, left = sum(found.tidegate.rows), found.tidegate.left
    if not left:
        return ""
    return (
        f"These figures are of the first {counted(len(found.tidegate.rows), 'batch')} only, "
        f"with {share(read, read + left)} of the rows; a larger maxDrift makes fewer batches."
    )


def suggestions(found: Findings) -> list[Suggestion]:
    """Return the options of tidegate and the delay that suit these rows."""
    disorder_ms = max((history.disorder_ms for history in found.seen.planned.values()), default=0)
    drift_ms, rows = milliseconds(found.max_drift or timedelta(0)), found.tidegate.rows
    delay_ms = max(disorder_ms, found.tidegate.least_delay_ms, _LEAST_MS)
    unseen = f"no row {'of an object' if found.seen.are_objects else 'between the samples'} is later"
    window_ms, largest, limit = milliseconds(found.window), max(rows, default=1), found.limited_budget
    return [
        Suggestion(
            f'.option("maxDrift", "{_duration(drift_ms)}")',
            f"{counted(len(rows), 'batch')} of {counted(sum(rows) / max(1, len(rows)), 'row')} on average, "
            f"{lead(found)}",
        ),
        Suggestion(
            _limit(limit if limit == found.budget else _rounded_up(limit)),
            f"the largest batch has {counted(largest, 'row')}"
            + (f", about {_size(largest * found.seen.bytes_per_row)}" if found.seen.bytes_per_row else ""),
        ),
        *_origin(found, disorder_ms),
        Suggestion(
            f'.withWatermark("{found.seen.column}", "{_duration(delay_ms)}")',
            f"a back-fill loses nothing with it, if {unseen}, and keeps up to "
            f"{counted(found.tidegate.open_windows(delay_ms, window_ms), 'window')} of each key in state. Spark's own "
            f"source needs {_about(found)}{delay(found.least_limited_delay)} in batches of {amount(limit)}, and "
            f"up to {count(found.limited.open_windows(milliseconds(found.least_limited_delay), window_ms))} windows. "
            "On a live source, add maxDrift",
        ),
    ]


def lead(found: Findings) -> str:
    """Return how far a batch of tidegate goes ahead."""
    ahead = "what is left" if found.seen.are_objects else "the slowest partition"
    return f"at most {span(found.tidegate.lead_ms)} ahead of {ahead}"


def _limit(budget: Budget) -> str:
    options = {
        "maxOffsetsPerTrigger": budget.rows,
        "maxFilesPerTrigger": budget.files,
        "maxBytesPerTrigger": budget.bytes,
    }
    return "".join(f'.option("{name}", "{limit}")' for name, limit in options.items() if limit is not None)


def _origin(found: Findings, disorder_ms: int) -> Iterator[Suggestion]:
    """Yield where the source's own watermark comes from; objects are planned in the order of their times."""
    if found.seen.watermark_from is not None:
        without = len(found.seen.histories) - len(found.seen.marks)
        least_ms = min(found.seen.marks.values(), default=None)
        yield Suggestion(
            f'.option("watermarkFrom", "{found.seen.watermark_from}")',
            "no sampled record is a mark"
            if least_ms is None
            else f"{counted(without, 'partition')} without marks in the samples, which would hold the watermark back"
            if without
            else f"in the samples, the marks of all partitions reach {clock_time(least_ms)}",
        )
    elif not found.seen.are_objects:
        yield Suggestion(
            f'.option("maxOutOfOrderness", "{_duration(max(disorder_ms, _LEAST_MS))}")',
            f"the sampled rows are out of order by up to {span(disorder_ms)}; rows outside the samples get a minute at "
            "least",
        )


def delay(least: timedelta) -> str:
    """Return a watermark delay as Spark writes it, rounded up, since a smaller one would lose rows."""
    return _duration(milliseconds(least)) if least else "0 seconds"


def _size(number: float) -> str:
    return f"{number / 2**20:,.1f} MiB" if number >= 2**20 else f"{number / 2**10:,.1f} KiB"


def _duration(length_ms: int) -> str:
    """Return a duration of at least a second as Spark writes it, rounded up where that changes little."""
    unit_ms, name = next(
        (unit_ms, name) for unit_ms, name in _UNITS if length_ms % unit_ms == 0 or length_ms >= 10 * unit_ms
    )
    number = -(-length_ms // unit_ms)
    return f"{number} {name}{'' if number == 1 else 's'}"


def _rounded_up(budget: Budget) -> Budget:
    """Return limits with two digits and zeros, at or above others."""
    numbers = (budget.rows, budget.bytes, budget.files)
    units = (int(10 ** max(0, len(str(number)) - 2)) for number in numbers)
    return Budget(*(None if n is None else -(-n // unit) * unit for n, unit in zip(numbers, units, strict=True)))


def remarks(seen: Seen, split: SplitId) -> list[str]:
    """Return what is remarkable about a split."""
    history = seen.histories.get(split)
    if history is None:
        return [*seen.notes.get(split, ["empty"])]
    blind = (
        ["Kafka's index does not show the times of these rows: figures come from samples"]
        if split in seen.blind
        else []
    )
    return [*seen.notes.get(split, ()), *_of_history(seen, history), *blind]


def _of_history(seen: Seen, history: History) -> Iterator[str]:
    times = np.sort(history.times_ms)
    if not seen.are_objects:  # their parts begin and end as the objects were written
        yield from _holes(times, *seen.shown_span)
    if times[-1] > seen.now_ms + _DAY_MS:
        yield f"records from the future, up to {clock_time(int(times[-1]))}"
    if times[0] <= _DAY_MS:
        yield "records at 0"
    elif history.disorder_ms:
        furthest = f"up to {span(history.disorder_ms)}"
        yield (f"{furthest} behind earlier objects" if seen.are_objects else f"out of order by {furthest}, by samples")
    if history.density < 1:
        yield f"{share(round(1000 * history.density), 1000)} of the offsets hold a record (compaction, transactions)"


def _holes(times: NDArray[np.int64], begin_ms: int, end_ms: int) -> Iterator[str]:
    much_ms = max(1, (end_ms - begin_ms) // MUCH)
    shown = times[(times >= begin_ms) & (times <= end_ms)]
    if times[0] - begin_ms > much_ms:
        yield f"begins {span(int(times[0]) - begin_ms)} after the first"
    if end_ms - times[-1] > much_ms:
        yield f"quiet for the last {span(end_ms - int(times[-1]))}"
    if len(shown) > 1 and (gap_ms := int(np.diff(shown).max())) > much_ms:
        yield f"a gap of {span(gap_ms)} from {clock_time(int(shown[np.diff(shown).argmax()]))}"


_COLUMNS = ("first (UTC)", "last (UTC)", "rows", "lost by Spark", "remarkable")
_HEIGHT = 420
_PARTS = 96  # of event time
_SHADES = 5
_MOST_SPLITS = 200
_REMARKS = "@media (min-width: 641px) { main :is(th, td):last-child { text-align: left; white-space: normal; } }"
_STYLE = (
    ".tidegate-preview svg { max-width: 720px; } .tidegate-preview svg text { fill: currentColor; font-size: 12px; }"
    ".tidegate-preview .grid { stroke: #8886; fill: none; }"
)


def page(found: Findings) -> str:
    """Return the page, which needs no other file and no network."""
    origin = "a survey of the objects" if found.seen.are_objects else "Kafka's time index and samples"
    figures = [figure(f"Event time against {_across(found)}", _span(found), _picture(found))] if found.rows else []
    if found.rows:
        rows = found.tidegate.rows
        text = f"{counted(len(rows), 'batch')}, {lead(found)}."
        batches = columns(range(len(rows)), rows, "rows", "The rows of each batch that tidegate plans.")
        figures.append(figure("What tidegate would do", text, batches + _advice(found)))
    return layout(
        title=f"tidegate preview: {found.reads}",
        headline=verdict(found),
        introduction=f"{found.reads}: {splits(found)}. {of_spark(found)}" if found.rows else f"{splits(found)}.",
        figures=figures,
        below=table([found.seen.word, *_COLUMNS], [_row(found, split) for split in found.splits]),
        head=f"<style>{_REMARKS}</style>",
        footer=f"From {origin}, not from all rows. Made by <code>tidegate preview</code>.",
    )


def _row(found: Findings, split: SplitPreview) -> str:
    lost = found.limited.lost.get(split.id, 0)
    cells = (
        split.id,
        clock_time(split.first_ms),
        clock_time(split.last_ms),
        count(split.rows),
        count(lost),
        "; ".join(remarks(found.seen, split.id)),
    )
    return table_row(cells, {1 + _COLUMNS.index("lost by Spark"): "lost"} if lost else {})


def notebook(found: Findings) -> str:
    """Return the picture, the verdict and the lines to paste, in the colours of a notebook."""
    picture = _picture(found) + _advice(found) if found.rows else ""
    return f'<div class="tidegate-preview"><style>{_STYLE}</style><p><b>{escape(verdict(found))}</b></p>{picture}</div>'


def _span(found: Findings) -> str:
    begin_ms, end_ms = found.seen.shown_span
    few = len(found.splits) > _MOST_SPLITS
    return (
        f"{count(found.rows)} rows from {clock_time(begin_ms)} to {clock_time(end_ms)}. The darker, the more rows."
        + (f" Only the first {_MOST_SPLITS} {found.seen.word}s are drawn." if few else "")
    )


def _advice(found: Findings) -> str:
    lines = (
        f"<p><code>{escape(suggestion.line)}</code><br>{escape(suggestion.reason)}</p>"
        for suggestion in suggestions(found)
    )
    return (f'<p class="lost">{escape(part(found))}</p>' if part(found) else "") + "".join(lines)


def _across(found: Findings) -> str:
    return "objects, in the order of their modification" if found.seen.are_objects else "partition"


def _names(shown: Sequence[SplitPreview]) -> list[str]:
    """Return the names of splits: their numbers, if there is one topic."""
    topics, numbers = zip(*(split.id.rpartition("-")[::2] for split in shown), strict=True)
    return [*numbers] if len({*topics}) == 1 else [split.id for split in shown]


def _picture(found: Findings) -> str:
    """Draw a column for each split: where it has rows in event time, and how many."""
    axis = utc_times(*found.seen.shown_span)
    shown = found.splits[:_MOST_SPLITS]
    names = [(place + 0.5, name) for place, name in enumerate(_names(shown))]
    canvas = Canvas(range(len(shown)), _HEIGHT, axis, _across(found), names)
    part_ms = (axis.end - axis.begin) / _PARTS
    histories = found.seen.histories
    rows = {s.id: histories[s.id].bars(axis.begin, axis.end, _PARTS) for s in shown if s.id in histories}
    most = max((max(parts) for parts in rows.values()), default=0) or 1

    def marks() -> Iterator[str]:
        yield from canvas.frame()
        for place, split in enumerate(shown):
            shades = [-(-_SHADES * part // most) for part in rows.get(split.id, ())]
            left, right = canvas.x(place + 0.08), canvas.x(place + 0.92)
            for shade, parts in groupby(enumerate(shades), key=lambda numbered: numbered[1]):
                numbers = [number for number, _ in parts]
                if shade > 0:
                    top = canvas.y(axis.begin + (numbers[-1] + 1) * part_ms)
                    bottom = canvas.y(axis.begin + numbers[0] * part_ms)
                    yield (
                        f'<rect fill="#2f6fdf" fill-opacity="{shade / _SHADES:.1f}" x="{left}" y="{top}" '
                        f'width="{right - left:.1f}" height="{bottom - top:.1f}">'
                        f"<title>{escape(split.id)}</title></rect>"
                    )
            if split.id in found.seen.marks:
                y = canvas.y(found.seen.marks[split.id])
                yield f'<path class="watermark" stroke="#c33" d="M{canvas.x(place)} {y}H{canvas.x(place + 1)}"/>'

    legend_of_marks = legend([key("watermark", "last mark in the samples")]) if found.seen.marks else ""
    return legend_of_marks + canvas.svg(marks(), f"{verdict(found)} Event time of the rows of each {found.seen.word}.")
