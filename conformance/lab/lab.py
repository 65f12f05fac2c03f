"""The lab of one rule: a harness of its own, the steps that were done with it, and the events that were seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from enum import Enum

import pyarrow as pa

from tidegate.add_ons import Extents, TimeIndex
from tidegate.conformance.harness import Abilities, Ability, Harness, HarnessFactory, Row, Writer, name_of
from tidegate.conformance.lab.base import PATIENCE_S, BaseLab, made
from tidegate.conformance.lab.explain import difference, listed
from tidegate.connector import (
    EventTimePolicy,
    Extent,
    Horizon,
    Json,
    Positions,
    ReadTask,
    Source,
    SplitEnumerator,
    SplitId,
    SplitRange,
)
from tidegate.errors import ContractError, counted

BEGIN_MS = 1_767_225_600_000
"""2026-01-01 in UTC: the begin of event times in scenarios."""
SECOND_MS = 1_000
IN_THE_YEAR_2200_MS = 7_258_118_400 * SECOND_MS

# Rules wait for their own rows, so discovery looks at once.
_OPTIONS = {"discoveryInterval": "50 milliseconds"}


def after(*seconds: float) -> list[int]:
    """Return event times, given in seconds after the begin of scenarios, in ms."""
    return [BEGIN_MS + round(second * SECOND_MS) for second in seconds]


def time_text(time_ms: int | None) -> str:
    """Format an event time for people: seconds after the begin of a scenario."""
    return "none" if time_ms is None else f"{(time_ms - BEGIN_MS) / SECOND_MS:+.10g} s"


class Split:
    """A split that the kit fills, and all rows that were ever appended to it."""

    def __init__(self, number: int, writer: Writer, tell: Callable[[str], None]) -> None:
        self.number, self._writer, self._tell = number, writer, tell
        self.appends: list[list[Row]] = []
        self.trimmed = 0

    @property
    def rows(self) -> list[Row]:
        """All rows that were ever appended, in order."""
        return [row for rows in self.appends for row in rows]

    @property
    def keys(self) -> list[str]:
        """The keys of all rows that still exist."""
        return [row.key for row in self.rows[self.trimmed :]]

    def append(self, *event_times_ms: int | None, values: Sequence[str | None] | None = None) -> list[Row]:
        """Append one row for each event time, all by one call; without ``values`` these are made up."""
        rows = self._rows(event_times_ms, values)
        self._append(rows)
        return rows

    def append_each(self, *event_times_ms: int | None) -> list[Row]:
        """Append one row for each event time, each by a call of its own."""
        rows = self._rows(event_times_ms, None)
        for row in rows:
            self._append([row])
        return rows

    def _rows(self, event_times_ms: Sequence[int | None], values: Sequence[str | None] | None) -> list[Row]:
        first = len(self.rows)
        times = listed(["no time" if at is None else time_text(at) for at in event_times_ms])
        self._tell(f"split {self.number}: append {counted(len(event_times_ms), 'row')} at {times}")
        return [
            Row(self.number, first + n, at_ms, f"value {first + n}" if values is None else values[n])
            for n, at_ms in enumerate(event_times_ms)
        ]

    def _append(self, rows: list[Row]) -> None:
        self._writer.append(rows)
        self.appends.append(rows)

    def finish(self) -> None:
        """Complete the split."""
        self._tell(f"split {self.number}: finish")
        self._writer.finish()

    def leave_hole(self) -> None:
        """Leave a position without a row."""
        self._tell(f"split {self.number}: leave a hole")
        self._writer.leave_hole()

    def append_bad_record(self) -> None:
        """Append a record that is set aside."""
        self._tell(f"split {self.number}: append a bad record")
        self._writer.append_bad_record()

    def trim(self, count: int) -> None:
        """Delete the first ``count`` rows of all."""
        self._tell(f"split {self.number}: delete the first {count} rows")
        self._writer.trim(count)
        self.trimmed = count

    def remove(self) -> None:
        """Delete the split."""
        self._tell(f"split {self.number}: delete it")
        self._writer.remove()


class Lab(BaseLab):
    """The lab of a connector: a rule writes rows through ``split``, and reads them through ``source``."""

    def __init__(self, make: HarnessFactory, patience_s: float = PATIENCE_S) -> None:
        self.harness = made(Harness, f"{make!r}", make())
        made(Abilities, f"{name_of(self.harness)}.abilities", self.harness.abilities)
        super().__init__(name_of(self.harness), patience_s, self.harness.close)
        self.make = make
        self.splits: list[Split] = []

    def can(self, ability: Ability) -> bool:
        """Return whether the connector has an ability."""
        return ability in self.harness.abilities

    @property
    def rows(self) -> list[Row]:
        """All rows that were ever written."""
        return [row for split in self.splits for row in split.rows]

    @property
    def times(self) -> dict[str, int]:
        """The event time of every row that has one, by its key."""
        return {row.key: row.event_time_ms for row in self.rows if row.event_time_ms is not None}

    @property
    def written(self) -> dict[int, list[str]]:
        """The keys of all existing rows, by the number of their split."""
        return {split.number: split.keys for split in self.splits}

    def split(self, *event_times_ms: int | None) -> Split:
        """Make a new split, with rows if there are event times; each row is appended by itself."""
        number = len(self.splits)
        self.tell(f"split {number}: create")
        split = Split(number, self.writer(), self.tell)
        self.splits.append(split)
        if event_times_ms:
            split.append_each(*event_times_ms)
        return split

    def two_splits(self, *event_times_ms: int) -> list[Split]:
        """Make two splits with rows at the same times, or one where there cannot be two."""
        return [self.split(*event_times_ms) for _ in range(2 if self.can(Ability.MANY_SPLITS) else 1)]

    def writer(self) -> Writer:
        """Make a new split outside of any scenario."""
        return made(Writer, f"{name_of(self.harness)}.create_split()", self.harness.create_split())

    def source(self, **options: str) -> Source:
        """Return a source of the rows written here, with more options of Spark."""
        if options:
            self.tell("source: " + ", ".join(f"{name}={value}" for name, value in options.items()))
        return made(Source, f"{name_of(self.harness)}.source()", self.harness.source({**_OPTIONS, **options}))

    def source_at_end(self) -> Source:
        """Return a source that begins after the rows written here."""
        options = self.harness.start_at_end
        if not options:
            raise ContractError(f"{name_of(self.harness)} has no start_at_end, but START_AT_END is not opted out of")
        return self.source(**options)

    def enumerator(
        self, source: Source, state: Json | None = None, positions: Positions | None = None
    ) -> SplitEnumerator:
        """Return a new enumerator of a source, as a stream that continues from an offset has it."""
        enumerator = source.as_stream().enumerator(state)
        self.at_close(enumerator.close)
        if positions is not None:
            enumerator.commit(positions)
        return enumerator

    def opened(self, **options: str) -> tuple[Source, SplitEnumerator]:
        """Return a source of the rows written here, and a new enumerator of it."""
        source = self.source(**options)
        return source, self.enumerator(source)

    @property
    def horizon(self) -> Horizon:
        """Where the future begins by default."""
        return EventTimePolicy().horizon(time.time_ns() // 1_000_000)

    def latest(self, enumerator: SplitEnumerator, ends: Positions) -> dict[SplitId, int | None]:
        """Return for each split its greatest event time before an end, as a planner finds it."""
        index = TimeIndex(enumerator, self.horizon.at_ms)
        return index.latest({split: Extent(min(0, end), end) for split, end in ends.items()})

    def discovered(self, enumerator: SplitEnumerator, rows: int | None = None) -> list[SplitId]:
        """Return all splits, once that many rows, or all written ones, can be seen in them."""
        wanted = sum(len(split.rows) - split.trimmed for split in self.splits) if rows is None else rows

        def seen() -> list[SplitId] | None:
            found = list(enumerator.discover())
            for name in found:  # which a checkpoint keeps as JSON
                self.expect(isinstance(name, str), f"the split {name!r} is named by {type(name).__name__}, not by text")
                self.expect(name, "a split has an empty name")
                is_utf8 = name.encode(errors="replace").decode() == name
                self.expect(is_utf8, f"the name {name!r} cannot be written as UTF-8")
            splits = sorted(set(found))
            extents = enumerator.extents(splits)
            there = sum(extent.end - extent.begin for extent in extents.values())
            full = there >= wanted if self.can(Ability.ROW_POSITIONS) else (there > 0) == (wanted > 0)
            return splits if full else None

        return self.until(
            seen,
            f"{wanted} rows that were written are never found by discover() and extents(), which must ask each time",
        )

    def wait_until_discovered(self, source: Source) -> None:
        """Wait until an enumerator of its own, as a stream has it, sees all rows that were written."""
        with closing(self.enumerator(source)) as enumerator:
            self.discovered(enumerator)

    def everything(self, enumerator: SplitEnumerator, rows: int | None = None) -> list[SplitRange]:
        """Return a range for each split with rows, from its begin to its end; see ``discovered``."""
        return self.ranges(enumerator.extents(self.discovered(enumerator, rows)))

    def ranges(self, extents: Extents) -> list[SplitRange]:
        """Return the ranges of extents that are not empty."""
        return [SplitRange(s, held.begin, held.end) for s, held in sorted(extents.items()) if held.begin < held.end]

    def read(self, source: Source, ranges: Iterable[SplitRange], enumerator: SplitEnumerator) -> list[pa.RecordBatch]:
        """Read ranges as one task, by a reader of its own, with the enumerator's snapshot and details."""
        return list(source.reader(enumerator.snapshot()).read(self.task(ranges, enumerator)))

    def task(self, ranges: Iterable[SplitRange], enumerator: SplitEnumerator) -> ReadTask:
        """Return a task with the enumerator's details."""
        wanted = tuple(ranges)
        return ReadTask(wanted, tuple(map(enumerator.details, wanted)), self.horizon)

    def placed(self, source: Source, enumerator: SplitEnumerator) -> dict[SplitId, dict[int, list[str]]]:
        """Return the keys of the rows at every position of every split, as a reader gives them for it alone.

        A position without rows has an empty list.  Waits until all rows can be seen.
        """
        wanted = {key for keys in self.written.values() for key in keys}

        def seen() -> dict[SplitId, dict[int, list[str]]] | None:
            placed: dict[SplitId, dict[int, list[str]]] = {}
            for split, extent in enumerator.extents(self.discovered(enumerator)).items():
                alone = (SplitRange(split, at, at + 1) for at in range(extent.begin, extent.end))
                placed[split] = {single.start: self.keys(self.read(source, [single], enumerator)) for single in alone}
            keys = {key for positions in placed.values() for there in positions.values() for key in there}
            return placed if wanted <= keys else None

        return self.until(seen, "not all rows are found by reading every position by itself")

    def keys(self, batches: Iterable[pa.RecordBatch]) -> list[str]:
        """Return the keys of the kit's rows, in order."""
        return [str(key) for key in self._texts(batches, "key_column")]

    def values(self, batches: Iterable[pa.RecordBatch]) -> list[str | None]:
        """Return the values of the kit's rows, in order."""
        return self._texts(batches, "value_column")

    def expect_event_times(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Raise ConformanceError unless every row has the event time that it was written with."""
        wanted = {row.key: row.event_time_ms for row in self.rows}
        for batch in batches:
            for key, found_ms in zip(self.keys([batch]), self._event_times_ms(batch), strict=True):
                written_ms = wanted.get(key)
                self.expect(
                    written_ms == found_ms,
                    f"row {key} was written with the event time {written_ms} ms, and read with {found_ms} ms",
                )

    def compare(self, delivered: Sequence[str], *, in_order: bool = True) -> None:
        """Raise ConformanceError unless the delivered rows are the written ones."""
        self.refuse(difference(self.written, delivered, in_order=in_order))

    def lacking(self, need: Enum) -> str | None:
        """Return why the connector lacks an ability."""
        return self.harness.abilities.lacking(need) if isinstance(need, Ability) else None

    def _texts(self, batches: Iterable[pa.RecordBatch], attribute: str) -> list[str | None]:
        values = [value for batch in batches for value in self._column(batch, attribute).to_pylist()]
        return [value.decode() if isinstance(value, bytes) else value for value in values]

    def _event_times_ms(self, batch: pa.RecordBatch) -> list[float | None]:
        name = self.harness.event_time_column
        column = self._column(batch, "event_time_column")
        if pa.types.is_integer(column.type):
            return list(column.to_pylist())
        if not pa.types.is_timestamp(column.type):
            raise self.fail(f"the column {name!r} is {column.type}: event times are timestamps, or in milliseconds")
        in_microseconds = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        return [None if at is None else at / 1_000 for at in in_microseconds.to_pylist()]

    def _column(self, batch: pa.RecordBatch, attribute: str) -> pa.Array:
        name = getattr(self.harness, attribute)
        if name not in batch.schema.names:
            there = ", ".join(batch.schema.names)
            raise self.fail(f"the reader yields no column {name!r}, only {there}: let {attribute} name it")
        return batch.column(name)
