"""TIME: rows for watermark generators, which see each row with its event time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.alignment.budget import Budget
from tidegate.alignment.generators.contract import WatermarkGenerator, WatermarkOutput
from tidegate.alignment.splits import SplitRange
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.conformance.abilities import Ability
from tidegate.conformance.checks.time.bad import IN_THE_YEAR_2200_MS
from tidegate.conformance.errors import NotApplicableError
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after, said
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.readers.contract import SplitReader, SupportsEventTimes, TimedBatch
from tidegate.sources.source import Source

_ROWS = 5


@rule("TIME-27")
def rows_with_event_times_are_the_rows(lab: Lab) -> None:
    for _ in range(2 if lab.can(Ability.MANY_SPLITS) else 1):
        lab.split(*_times())
    source = lab.source()
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    timed = _read_timed(lab, source, ranges, enumerator)
    for number, wanted in enumerate(ranges):
        plain = lab.keys(lab.read(source, [wanted], enumerator))
        own = lab.keys(batch.delivered for batch in timed if batch.number == number)
        what = f"{wanted} read without event times, and with, in a task of {len(ranges)} ranges"
        lab.refuse(ordered_difference(what, plain, own))
    for rows in (batch.delivered for batch in timed):
        lab.expect(
            rows.schema.equals(source.arrow_schema),
            f"read_timed() gives {rows.schema.names}, but the source's columns are {source.arrow_schema.names}",
        )


@rule("TIME-28", witness=("a row that is left out",))
def each_row_has_the_event_time_that_it_is_planned_by(lab: Lab) -> None:
    lab.split(*_times()[:2], IN_THE_YEAR_2200_MS, *_times()[2:])
    source = lab.source(futureEventTime="ignore")
    enumerator = lab.enumerator(source)
    written = {row.key: row.event_time_ms for row in lab.rows}
    for wanted in lab.everything(enumerator):
        for key, found_ms in _by_key(lab, _read_timed(lab, source, [wanted], enumerator)):
            counted_ms = None if written.get(key) == IN_THE_YEAR_2200_MS else written.get(key)
            if counted_ms is None:
                lab.saw("a row that is left out")
            shown = "no event time" if found_ms is None else f"the event time {said(found_ms)}"
            wish = "none, because it is left out" if counted_ms is None else said(counted_ms)
            lab.expect(found_ms == counted_ms, f"read_timed() gives row {key} {shown}, but it has {wish}")


@rule("TIME-29")
def event_times_are_the_same_every_time(lab: Lab) -> None:
    lab.split(*_times())
    source = lab.source()
    enumerator = lab.enumerator(source)
    for wanted in lab.everything(enumerator):
        middle = (wanted.start + wanted.end) // 2
        parts = [SplitRange(wanted.split_id, *ends) for ends in ((wanted.start, middle), (middle, wanted.end))]
        whole, pieces = (
            _as_texts(_by_key(lab, (timed for part in some for timed in _read_timed(lab, source, [part], enumerator))))
            for some in ([wanted], [part for part in parts if part.start < part.end])
        )
        lab.refuse(ordered_difference(f"{wanted} with event times as a whole, and in parts", whole, pieces))


class _Greatest(WatermarkGenerator):
    """Emits the greatest event time, less 1 ms.  It needs no state, because the watermark never goes back."""

    def on_event(self, batch: pa.RecordBatch, event_times: npt.NDArray[np.int64], output: WatermarkOutput) -> None:
        """Emit the watermark of a batch."""
        del batch
        output.emit_watermark(int(event_times.max()) - 1)


@rule("TIME-30", witness=("a watermark behind unread rows",))
def a_generated_watermark_follows_the_rows_that_were_read(lab: Lab) -> None:
    lab.split(*after(*(n * 4 for n in range(_ROWS * 2))))
    source = lab.source()
    if not isinstance(source.reader(None), SupportsEventTimes):
        raise _lacks(source.reader(None))
    generated = source.model_copy(update={"watermarks": WatermarkStrategy.for_generator(_Greatest)})
    query, times, seen, judged = Query(lab, generated), lab.times, set[str](), 0

    def said_of_seen() -> int | None:
        return max((times[key] - 1 for key in seen), default=None)

    while len(seen) < len(times):
        query.run_until(lambda: len(set(query.delivered)) > len(seen), "rows are never delivered", Budget(rows=3))
        for batch in query.batches[judged:]:
            allowed_ms = said_of_seen()
            if batch.watermark_ms is not None:
                lab.saw("a watermark behind unread rows")
                lab.expect(
                    allowed_ms is not None and batch.watermark_ms <= allowed_ms,
                    f"batch {batch.number} has the watermark {said(batch.watermark_ms)}, but for the rows before it "
                    f"the generator says {said(allowed_ms)}",
                )
            seen.update(batch.keys)
        judged = len(query.batches)
        query.crash()
    query.rest()
    last_ms, wanted_ms = query.last_offset.get("watermark"), said_of_seen()
    lab.expect(
        last_ms == wanted_ms,
        f"when all rows are read the watermark is {said(last_ms)}, but the generator says {said(wanted_ms)}",
    )


def _times() -> list[int]:
    return [BEGIN_MS + n * SECOND_MS for n in range(_ROWS)]


def _read_timed(
    lab: Lab, source: Source, ranges: Sequence[SplitRange], enumerator: SplitEnumerator
) -> list[TimedBatch]:
    reader = source.reader(enumerator.snapshot())
    if not isinstance(reader, SupportsEventTimes):
        raise _lacks(reader)
    timed = list(reader.read_timed(lab.task(ranges, enumerator)))
    for number, rows, times, _ in timed:
        lab.expect(number in range(len(ranges)), f"read_timed() gives rows of range {number} of {len(ranges)}")
        lab.expect(
            times.type == pa.int64() and len(times) == rows.num_rows,
            f"read_timed() gives {len(times)} event times of {times.type} for {rows.num_rows} rows, not an int64 each",
        )
    return timed


def _lacks(reader: SplitReader) -> NotApplicableError:
    return NotApplicableError(f"{type(reader).__name__} has no {SupportsEventTimes.__name__}, which is optional")


def _by_key(lab: Lab, timed: Iterable[TimedBatch]) -> list[tuple[str, int | None]]:
    return [
        (key, time_ms)
        for _, rows, times, _ in timed
        for key, time_ms in zip(lab.keys([rows]), times.to_pylist(), strict=True)
    ]


def _as_texts(rows: list[tuple[str, int | None]]) -> list[str]:
    return [f"{key} at {time_ms}" for key, time_ms in rows]
