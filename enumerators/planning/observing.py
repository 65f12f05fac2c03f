"""The first step of a plan: all that is asked of a source, but the time index.

An observer has the enumerator of a run, and the parts that continue from the offset with which the run begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

from tidegate.alignment.budget import Budget, CostOf, split_rows
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Limits, Observed
from tidegate.alignment.splits import NEVER_MS, Horizon, Positions, SplitId, SplitRange
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.contract import (
    Completeness,
    Json,
    SplitEnumerator,
    SupportsCost,
)
from tidegate.enumerators.planning.generated import GeneratedWatermarks, ReaderFeed, needed_from
from tidegate.enumerators.planning.offset import Offset
from tidegate.enumerators.planning.run_log import RunLog
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.enumerators.planning.splits import Splits
from tidegate.errors import ContractError
from tidegate.readers.contract import ReadTask, TimedRows
from tidegate.readers.events.event import BAD_RECORDS, WATERMARK, SourceEvent

_LONGEST_PAUSE_S = 5.0  # between two looks at the extents
_POLL_INTERVAL_S = 0.1  # Spark itself asks about 90 times a second while nothing comes


class Observer:
    """Observes a source before each plan of a run.

    horizon_ms: where the future begins for the plan, by the one look at the clock for it.
    """

    def __init__(
        self,
        source: str,
        enumerator: SplitEnumerator,
        before: Offset,
        settings: CoordinatorSettings,
        *,
        log: RunLog,
        clocks: Clocks,
        feed: ReaderFeed | None,
    ) -> None:
        self._source, self.enumerator, self._settings, self._clocks = source, enumerator, settings, clocks
        self._read_at_ms = before.horizon_ms
        self.horizon_ms = NEVER_MS
        self._is_paused, self._paused_until_s = False, float("-inf")
        self._paused_at: Json | None = None  # the start of the last plan; None: it failed
        self.index = TimeIndex(enumerator)
        self._hollow = before.hollow.begins if before.hollow.options_digest == settings.options_digest else {}
        self.splits = Splits(enumerator, settings, log, clocks)
        self.bad_records: BadRecordTally | None = None
        if settings.counts_bad_records and feed is not None:
            self.bad_records = BadRecordTally(before.bad_records, partial(feed.take_events, BAD_RECORDS))
        self.generated: GeneratedWatermarks | None = None
        if settings.watermarks.generator is not None and feed is not None:
            read, take_events = partial(self._read, feed), partial(feed.take_events, WATERMARK)
            self.generated = GeneratedWatermarks(
                settings.watermarks.generator,
                read,
                take_events,
                snapshot=before.generators,
                positions=before.progress.positions,
            )

    def observe(self, start: Json, before: Offset, batch: int, *, bounded: bool) -> Observed | None:
        """Return the splits that exist now, with what generators and the tally have seen in the rows of the last batch.

        None: nothing can have changed since a plan that changed nothing, not even by the clock.

        start, before: the last offset, as JSON and read.
        batch: the number of the batch that was planned last.
        """
        if (may_differ := self._may_differ(start, bounded=bounded)) is None:
            return None
        enumerator, positions = self.enumerator, before.progress.positions
        self._read_at_ms = before.horizon_ms
        # The only look at the clock for the batch.
        self.horizon_ms = self.horizon_now_ms()
        enumerator.begin_plan(positions, self.horizon_ms if self._holds_future else NEVER_MS)
        enumerator.commit(needed_from(before.generators, positions))
        observed = self.splits.find(before, self.horizon_ms, bounded=bounded, look=may_differ)
        if self.generated is not None:
            still_held = {s: at for s, at in positions.items() if s not in observed.starts}
            readable = {s for s, extent in observed.extents.items() if extent.available}
            self.generated.see(still_held, readable, before.progress.watermark_ms)
            self.generated.begin(observed.starts, observed.progress.positions, batch)
            observed = replace(observed, generated=self.generated.splits)
        if self.bad_records is not None:
            self.bad_records.count(positions)
            self.bad_records.begin(observed.starts)
        self.index.forget(self.splits.diverged)
        hollow, self._hollow = {s: at for s, at in self._hollow.items() if s not in observed.starts}, {}
        complete = self.completeness()
        return replace(observed, hollow=hollow, complete_ms=None if complete is None else complete.until_ms)

    def pause(self, start: Json, until_s: float) -> None:
        """Learn that a plan changed nothing, and that the next one may until then change only with an extent."""
        self._is_paused, self._paused_at, self._paused_until_s = True, start, until_s

    def go_on(self) -> None:
        """Learn that a plan changed something."""
        self._is_paused = False

    def _may_differ(self, start: Json, *, bounded: bool) -> bool | None:
        """Wait a little, unless the last plan changed something or all ends are fixed.

        Returns whether extents may have changed; None: nothing can have changed.
        """
        clock, splits = self._clocks.monotonic, self.splits
        is_known = (
            self._is_paused
            and start == self._paused_at
            and not bounded
            and self._clocks.are_real
            and clock() < min(splits.due_s, splits.looked_at_s + _LONGEST_PAUSE_S)
        )
        if is_known and not self.enumerator.wait(_POLL_INTERVAL_S):
            if clock() < self._paused_until_s:
                return None
            may_differ = False
        else:
            may_differ = True
            if self._is_paused:
                self._clocks.sleep(max(0.0, splits.looked_at_s + _POLL_INTERVAL_S - clock()))
        self._paused_at = None  # a plan that fails looks again
        return may_differ

    def limits(self, budget: Budget) -> Limits:
        """Return the limits of a batch."""
        watermarks = self._settings.watermarks
        return replace(
            self._settings.limits,
            max_drift_ms=watermarks.max_drift_ms,
            out_of_orderness_ms=watermarks.out_of_orderness_ms,
            generated=watermarks.generator is not None,
            budget=budget,
            stops=self.splits.stops,
            horizon_ms=self.horizon_ms,
            holds_future=self._holds_future,
            cost=self._cost_within(budget),
        )

    @property
    def _holds_future(self) -> bool:
        return self._settings.event_times.future == "hold"

    @property
    def cost_of_rows(self) -> CostOf:
        """The function that counts rows, by the connector or by positions; it may leave out other units."""
        if isinstance(self.enumerator, SupportsCost) and not self.enumerator.positions_are_rows:
            return self.enumerator.cost
        return split_rows

    def _cost_within(self, budget: Budget) -> CostOf:
        """Return the function that counts the units that a budget limits."""
        if budget == Budget(rows=budget.rows):
            return self.cost_of_rows
        if not isinstance(self.enumerator, SupportsCost):
            raise ContractError(f"the enumerator of {self._source!r} has no cost(), so that only rows can be limited")
        return self.enumerator.cost

    def completeness(self) -> Completeness | None:
        """Return how far the records are complete; None: the watermark does not follow that."""
        return self.enumerator.completeness() if self._settings.limits.by_completeness else None

    def bad_record_count(self, before: Offset) -> int:
        """Return how many bad records the query has set aside, up to the batch before."""
        return before.bad_records if self.bad_records is None else self.bad_records.total

    def horizon_now_ms(self) -> int:
        """Return where the future begins now."""
        return self._settings.event_times.horizon(int(self._clocks.wall() * 1000)).at_ms

    def task(self, ranges: Iterable[SplitRange], horizon_ms: int) -> ReadTask:
        """Return the task of some ranges, with the details that their reader needs."""
        wanted = tuple(ranges)
        return ReadTask(wanted, tuple(map(self.enumerator.details, wanted)), Horizon(horizon_ms))

    def _read(self, feed: ReaderFeed, wanted: SplitRange) -> TimedRows:
        task = self.task([wanted], self._read_at_ms or self.horizon_now_ms())
        return feed.read_timed(task, self.enumerator.snapshot())


class BadRecordTally:
    """The bad records of a query, from its first batch on.

    An event may come twice, from a repeated task, or never: then its records are not counted.

    total: how many there were up to the offset with which the run begins.
    take_events: returns the events about bad records since its last call.
    """

    def __init__(self, total: int, take_events: Callable[[], Collection[SourceEvent]]) -> None:
        self._take_events = take_events
        self._counted_to: dict[SplitId, int] = {}
        self.total = total

    def count(self, positions: Positions) -> None:
        """Count what events said about the last batch, at the positions after it.  Called before every plan."""
        numbers = {
            (event.split_id, event.start): int(event.report["number"])
            for event in self._take_events()
            if event.start >= self._counted_to.get(event.split_id, 0)
        }
        self.total += sum(numbers.values())
        self._counted_to = dict(positions)

    def begin(self, splits: Collection[SplitId]) -> None:
        """Take in splits that are new, or hold other records than before."""
        for split in splits:
            self._counted_to.pop(split, None)
