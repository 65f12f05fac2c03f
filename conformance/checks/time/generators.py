"""TIME: rows for watermark generators, which see each row with its event time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.alignment.splits import SplitRange
from tidegate.conformance.abilities import Ability
from tidegate.conformance.errors import NotApplicableError
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.lab import IN_THE_YEAR_2200_MS, Lab, after, said
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import SplitEnumerator
from tidegate.readers.contract import SupportsEventTimes, TimedBatch
from tidegate.sources.source import Source


@rule("TIME-27", witness=("a row that is left out",))
def rows_with_event_times_are_the_rows_and_have_the_times_of_the_plan(lab: Lab) -> None:
    times = after(*range(5))
    lab.split(*times[:2], IN_THE_YEAR_2200_MS, *times[2:])
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*times)
    source, enumerator = lab.opened(futureEventTime="ignore")
    ranges = lab.everything(enumerator)
    timed = _read_timed(lab, source, ranges, enumerator)
    for number, wanted in enumerate(ranges):
        plain = lab.keys(lab.read(source, [wanted], enumerator))
        own = lab.keys(batch.delivered for batch in timed if batch.number == number)
        what = f"{wanted} read without event times, and with, in a task of {len(ranges)} ranges"
        lab.refuse(ordered_difference(what, plain, own))
    for _, rows, times_ms, _ in timed:
        lab.expect(
            rows.schema.equals(source.arrow_schema),
            f"read_timed() gives {rows.schema.names}, but the source's columns are {source.arrow_schema.names}",
        )
        for key, found_ms in zip(lab.keys([rows]), times_ms.to_pylist(), strict=True):
            _expect_time(lab, key, lab.times.get(key), found_ms)


def _expect_time(lab: Lab, key: str, written_ms: int | None, found_ms: int | None) -> None:
    counts_at_ms = None if written_ms == IN_THE_YEAR_2200_MS else written_ms
    if counts_at_ms is None:
        lab.saw("a row that is left out")
    shown = "no event time" if found_ms is None else f"the event time {said(found_ms)}"
    wish = "none, because it is left out" if counts_at_ms is None else said(counts_at_ms)
    lab.expect(found_ms == counts_at_ms, f"read_timed() gives row {key} {shown}, but it has {wish}")


def _read_timed(
    lab: Lab, source: Source, ranges: Sequence[SplitRange], enumerator: SplitEnumerator
) -> list[TimedBatch]:
    reader = source.reader(enumerator.snapshot())
    if not isinstance(reader, SupportsEventTimes):
        raise NotApplicableError(f"{type(reader).__name__} has no SupportsEventTimes, which is optional")
    timed = list(reader.read_timed(lab.task(ranges, enumerator)))
    for number, rows, times, _ in timed:
        lab.expect(number in range(len(ranges)), f"read_timed() gives rows of range {number} of {len(ranges)}")
        lab.expect(
            times.type == pa.int64() and len(times) == rows.num_rows,
            f"read_timed() gives {len(times)} event times of {times.type} for {rows.num_rows} rows, not an int64 each",
        )
    return timed
