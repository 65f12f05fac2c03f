"""A connector for the splits of a world, with the contracts that a user's own connector has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import PrivateAttr

from tests.lives.world import Options, Present, Record
from tidegate.alignment.splits import Extent, Head, Horizon
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.contract import Divergence, SplitEnumerator
from tidegate.errors import PositionGoneError, UnavailableError
from tidegate.readers.contract import ReadTask, SplitReader
from tidegate.sources.source import Source

MS = timedelta(milliseconds=1)


class Row(NamedTuple):
    """A row as a query gets it; at_ms: its event time in Spark; None: it is null."""

    split: str
    incarnation: int
    position: int
    at_ms: int | None


class LifeSource(Source):
    """Reads the splits of one member of a world."""

    connector: ClassVar[str] = "lives"
    _present: Any = PrivateAttr(None)
    _member: int = PrivateAttr(0)
    _opened: Any = PrivateAttr(None)
    _frozen: Any = PrivateAttr(None)

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([("at", pa.timestamp("us", "UTC"))])

    def enumerator(self, state):
        kind = Enumerator if self._present.options.index == "payload" else Indexed
        self._opened = kind(self, self._present, self._member, state)
        return self._opened

    def reader(self, state):
        return Reader(self, self._present, state)

    def used_ms(self, split: str, position: int, record: Record, horizon: Horizon) -> int | None:
        if record.is_marker:
            return None
        return self.usable_time_ms(record.at_ms, f"{split}: the row at {position}", horizon)


def source_of(present: Present, member: int) -> LifeSource:
    options: Options = present.options
    source = LifeSource(
        watermarks=WatermarkStrategy(
            out_of_orderness=options.disorder_ms * MS if options.watermarks else None,
            idle_timeout=timedelta(seconds=options.idle_s),
            max_drift=None if options.drift_ms is None else options.drift_ms * MS,
            group="lives" if options.members > 1 else None,
        ),
        alignment="event-time" if options.aligned else "none",
        late_splits=options.late,
        fail_on_data_loss=not options.loses,
        bad_event_time="ignore",
        max_future_skew=options.skew_ms * MS,
        future_event_time=options.future,
        discovery_interval=timedelta(seconds=options.discovery_s) or MS,
    )
    source._present, source._member = present, member
    return source


class Enumerator(SplitEnumerator):
    """Answers from the splits as they are now.

    discovered: the splits that it named last.
    said: its last extents.  first_said: those with which the run began.
    said_away: the splits without a leader.
    said_at_ms: the wall clock of the last plan.  said_grown: when each split had grown last, at the last extents.
    """

    def __init__(self, source: LifeSource, present: Present, member: int, state: Mapping[str, Any] | None) -> None:
        self._source, self._present, self._member = source, present, member
        self._known: dict[str, int] = dict((state or {}).get("incarnations", {}))
        self.discovered: set[str] = set()
        self.said: dict[str, Extent] = {}
        self.first_said: dict[str, Extent] | None = None
        self.said_at_ms = 0
        self.said_grown: dict[str, float] = {}
        self.said_away: dict[str, str] = {}
        self._may_be_away = False

    @property
    def _logs(self):
        return self._present.of(self._member)

    def discover(self):
        self.discovered = {*self._logs}
        return list(self._logs)

    def lost(self, removed):
        return ()

    def starts(self, splits, *, first):
        self._known.update({s: self._logs[s].incarnation for s in splits})
        return {s: self._logs[s].begin for s in splits}

    def stops(self, splits):
        return dict.fromkeys(splits, self._present.options.stop)

    def begin_plan(self, positions, held_from_ms):
        self.said_at_ms = self._present.clock.wall_ms  # no other look at the clock has followed that of the plan

    def extents(self, splits):
        if self._source._frozen is not None:
            return {s: extent for s, extent in self._source._frozen.items() if s in splits}
        self.said = {
            s: Extent(log.begin, log.end, settled=log.stable is None, epoch=log.incarnation)
            for s in splits
            if (log := self._logs.get(s)) is not None
        }
        if self.first_said is None:
            self.first_said = self.said
        self.said_grown = {s: self._logs[s].grown_at_s for s in self.said}
        self._may_be_away, self.said_away = False, {}
        self._present.happen_meanwhile()
        return self.said

    def available_extents(self, splits):
        away = {s: "it has no leader" for s in splits if s in self._logs and self._logs[s].is_away}
        said = self.extents([s for s in splits if s not in away])
        self._may_be_away, self.said_away = True, away
        return said, away

    def validate(self, positions):
        logs, known = self._logs, self._known
        cuts = {s: [at for i, at in logs[s].cuts.items() if i > known.get(s, -1)] for s in positions if s in logs}
        anew = {s: max(logs[s].begin, min(positions[s], *at)) for s, at in cuts.items() if at}
        known.update({s: logs[s].incarnation for s in anew})
        return {s: Divergence("it holds other records", at) for s, at in anew.items()}

    def _record_from(self, split, position, used):
        log = self._logs[split]
        for at, record in enumerate(log.records[position : log.end], position):
            if (at_ms := used(at, record)) is not None:
                return Head(at, at_ms)
        return None

    def peek(self, positions, horizon):
        logs = self._logs
        if gone := [s for s, p in positions.items() if s not in logs or p < logs[s].begin]:
            raise PositionGoneError(f"{gone} are gone")
        if self._may_be_away and any(logs[s].is_away for s in positions):
            raise UnavailableError("no leader")
        return {
            s: self._record_from(s, p, lambda at, r, s=s: self._source.used_ms(s, at, r, horizon))
            for s, p in positions.items()
        }

    def latest(self, ends, horizon):
        times = {}
        for split, end in ends.items():
            log = self._logs[split]
            used = (self._source.used_ms(split, p, log.records[p], horizon) for p in range(log.begin, end))
            times[split] = max((at_ms for at_ms in used if at_ms is not None), default=None)
        return times

    def snapshot(self):
        return {"incarnations": dict(sorted(self._known.items()))}


class Indexed(Enumerator):
    """Also finds positions by times; as in Kafka, of all records that are left, even of those that were read."""

    def lookup(self, event_time_ms, splits):
        by_log = self._present.options.index == "log"
        horizon = self._source.event_time_policy.horizon(self._present.clock.wall_ms)
        heads = {}
        for split in splits:

            def used(at, record, split=split):
                own = record.at_ms if by_log else self._source.used_ms(split, at, record, horizon)
                return own if own is not None and own >= event_time_ms else None

            heads[split] = self._record_from(split, self._logs[split].begin, used)
        return heads


class Reader(SplitReader):
    """Reads rows as they are now: those of another incarnation than planned are gone."""

    def __init__(self, source: LifeSource, present: Present, state: Mapping[str, Any] | None) -> None:
        self._source, self._present, self._planned = source, present, (state or {}).get("incarnations", {})

    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        raise AssertionError("a life takes rows, not batches")

    def rows(self, task: ReadTask) -> Iterator[Row]:
        for split, start, end in map(_parts, task.ranges):
            log = self._present.logs[split]
            if log.incarnation == self._planned.get(split):
                for position in range(max(start, log.begin), end):
                    record = log.records[position]
                    if not record.is_marker:
                        at_ms = self._source.used_ms(split, position, record, task.horizon)
                        yield Row(split, log.incarnation, position, at_ms)


def _parts(wanted):
    return wanted.split_id, wanted.start, wanted.end
