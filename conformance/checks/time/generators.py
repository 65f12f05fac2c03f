"""TIME: rows for watermark generators, which see each row with its event time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from tidegate.alignment.splits import SplitRange
from tidegate.conformance.errors import NotApplicableError
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, IN_THE_YEAR_2200_MS, SECOND_MS, Lab, said
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.readers.contract import SplitReader, SupportsEventTimes, TimedBatch
from tidegate.sources.source import Source

_ROWS = 5


@rule("TIME-27")
def rows_with_event_times_are_the_rows(lab: Lab) -> None:
    lab.two_splits(*_times())
    source, enumerator = lab.opened()
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
    source, enumerator = lab.opened(futureEventTime="ignore")
    written = {row.key: row.event_time_ms for row in lab.rows}
    for wanted in lab.everything(enumerator):
        for key, found_ms in _by_key(lab, _read_timed(lab, source, [wanted], enumerator)):
            counted_ms = None if written.get(key) == IN_THE_YEAR_2200_MS else written.get(key)
            if counted_ms is None:
                lab.saw("a row that is left out")
            shown = "no event time" if found_ms is None else f"the event time {said(found_ms)}"
            wish = "none, because it is left out" if counted_ms is None else said(counted_ms)
            lab.expect(found_ms == counted_ms, f"read_timed() gives row {key} {shown}, but it has {wish}")


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
