"""The source coordinator: creates the offsets that Spark asks for, from an enumerator and plans.

FLIP-27 calls it SourceCoordinator.  It lives in the planner process of a query, and knows nothing about Spark.  It
holds only soft state: the answers of this run, and the last plan.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import NamedTuple

from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.alignment.generators.split_watermark import new_generator
from tidegate.alignment.horizon import Horizon
from tidegate.alignment.index import SupportsPeek, TimeIndex
from tidegate.alignment.plan import LateSplits, Limits, Plan
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Positions, SplitRange
from tidegate.alignment.standing import find_standing, with_generated
from tidegate.alignment.states import SplitState
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks
from tidegate.enumerators.contract import (
    Completeness,
    Json,
    SplitEnumerator,
    SupportsClock,
    SupportsCommit,
    SupportsCompleteness,
    SupportsDetails,
)
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.assigner import assign
from tidegate.enumerators.planning.bad_records import BadRecordTally
from tidegate.enumerators.planning.costs import cost_of_rows, cost_within
from tidegate.enumerators.planning.garbage import collected_later
from tidegate.enumerators.planning.generated import GeneratedWatermarks, ReaderFeed, needed_from
from tidegate.enumerators.planning.membership import Membership
from tidegate.enumerators.planning.offset import INITIAL_OFFSET, Hollow, Offset
from tidegate.enumerators.planning.other_windows import check_same_windows
from tidegate.enumerators.planning.pace import BatchPace
from tidegate.enumerators.planning.reporter import ProgressReporter
from tidegate.enumerators.planning.rest import Rest, Woken
from tidegate.enumerators.planning.run_log import RunLog
from tidegate.enumerators.planning.splits import FoundSplits, Splits
from tidegate.errors import ContractError, PositionGoneError, UnavailableError
from tidegate.readers.contract import ReadTask, TimedRows
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.events.event import BAD_RECORDS, WATERMARK

__all__ = ["CoordinatorSettings", "SourceCoordinator"]

_MORE_ATTEMPTS = 4
_LONGEST_WAIT_S, _LOOK_S = 60.0, 0.5  # of a bounded run for a split to become idle, and between two looks at it
_LONG_STRETCH = 1000  # positions without a record to align by; a restart need not search a longer stretch again


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """The settings of a source for its coordinator; see the options of the same names.

    event_times: the policy that says where the future begins, and whether records wait there.
    counts_bad_records: readers set bad records aside, and report how many.
    drift_by_watermark: the max drift is measured between the watermarks of generators.
    by_completeness: the watermark is the time up to which the source is complete, by its enumerator, and read.
    options_digest: changes with any option: records that were left out may count now.
    windows: the description of the windows that Spark's aggregation keeps; None: Spark keeps none.
    """

    watermarks: WatermarkStrategy
    aligned: bool = True
    drift_by_watermark: bool = False
    fail_on_data_loss: bool = True
    late_splits: LateSplits = "admit"
    event_times: EventTimePolicy = field(default_factory=EventTimePolicy)
    discovery_interval_s: float = 30.0
    min_tasks: int | None = None
    max_positions_per_task: int | None = None
    max_trigger_delay_s: float = 900.0
    counts_bad_records: bool = False
    by_completeness: bool = False
    options_digest: str = ""
    windows: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Opened:
    """The parts of an opened source."""

    enumerator: SplitEnumerator
    index: TimeIndex
    splits: Splits
    generated: GeneratedWatermarks | None


class _Decision(NamedTuple):
    """A plan, and its consequences for the run.

    is_nothing: the plan changes nothing, so the offset need not change.
    held_by: the member of the group that keeps a bounded run from its end.
    idle_in_s: the bounded run can go on once a split is idle, after so many seconds; infinite: no split is waited for.
    """

    planned: Plan
    is_nothing: bool
    held_by: str | None
    idle_in_s: float


class SourceCoordinator:
    """Answers Spark's questions for one run of one source.

    source: the connector's name, written into every offset.
    open_enumerator: called once, with the snapshot from the start offset.
    cores: how many tasks the cluster runs at once.
    group: the source's alignment group; None: it has none.
    pace: sizes the batches; None: batches do not size themselves.
    feed: the events of watermark generators and about bad records; None: there are neither.
    """

    def __init__(
        self,
        source: str,
        open_enumerator: Callable[[Json | None], SplitEnumerator],
        settings: CoordinatorSettings,
        cores: int,
        *,
        group: GroupFolder | None = None,
        pace: BatchPace | None = None,
        clocks: Clocks = REAL_CLOCKS,
        feed: ReaderFeed | None = None,
    ) -> None:
        self._source, self._open, self._settings, self._cores = source, open_enumerator, settings, cores
        self._membership = Membership(group, settings.watermarks.max_drift_ms, by_watermark=settings.drift_by_watermark)
        self._pace, self._clocks, self._feed = pace, clocks, feed
        self._log = RunLog(source)
        self._reporter = ProgressReporter(self._log, clocks)
        self._bad_records: BadRecordTally | None = None
        if settings.counts_bad_records and feed is not None:
            self._bad_records = BadRecordTally(partial(feed.take_events, BAD_RECORDS))
        self._opened: _Opened | None = None
        self._is_bounded = False
        self._rest = Rest(clocks)
        self._last_offset: tuple[Json, Offset] | None = None  # as JSON, so that it need not be read again
        self._batch_at_s = clocks.monotonic()
        self._read_at_ms: int | None = None  # the horizon of the batch before
        self.batch = 0
        """The number of the batch whose tasks were planned last, in this run: source events name it."""

    def bound_run(self) -> None:
        """Let this run end at what can be read now (Trigger.AvailableNow)."""
        self._is_bounded = True

    def latest_offset(self, start: Json, budget: Budget = UNLIMITED, min_rows: int = 0) -> Json:
        """Return the end of the next batch; ``start`` itself if there is nothing to do.

        min_rows: plan no batch while fewer rows can be read, but no longer than the trigger delay,
            and not in a bounded run.
        """
        with collected_later():
            return self._latest_offset(start, budget, min_rows)

    def _latest_offset(self, start: Json, budget: Budget, min_rows: int) -> Json:
        while (offset := self._attempted(start, budget, min_rows)) is None:
            pass
        return offset

    def _attempted(self, start: Json, budget: Budget, min_rows: int) -> Json | None:
        for _ in range(_MORE_ATTEMPTS):
            # Records may be deleted during a plan: the next extents show whether that is data loss.  Splits that have
            # become unavailable are left out of the next plan.
            with suppress(PositionGoneError, UnavailableError):
                return self._plan_to(start, budget, min_rows)
        return self._plan_to(start, budget, min_rows)

    def tasks(self, start: Json, end: Json) -> list[ReadTask]:
        """Return the tasks of the batch between two offsets: the same for the same offsets."""
        return self.tasks_between(Offset.from_json(start, self._source), Offset.from_json(end, self._source))

    def tasks_between(self, before: Offset, after: Offset) -> list[ReadTask]:
        """Return the same tasks as ``tasks``, for offsets of this source."""
        self.batch += 1
        self._membership.stored(after.group, after.progress.bound_ms)
        self._check_windows(before)
        opened = self._open_once(after)
        if before == after:  # the starts in ``after`` belong to an earlier batch
            return []
        ranges = [
            SplitRange(split, begin, position)
            for split, position in after.progress.positions.items()
            if (begin := after.start_of(split, before)) < position
        ]
        return self._assigned(ranges, opened.enumerator, after.horizon_ms)

    def everything(self) -> tuple[list[ReadTask], Json | None]:
        """Return the tasks of a batch query, and the enumerator's snapshot.

        Every split is read from its start to its stop or its present end.
        """
        opened = self._open_once(Offset())
        return self._assigned(opened.splits.everything(), opened.enumerator, None), opened.enumerator.snapshot()

    def source_progress(self) -> Json | None:
        """Return the decisions of the last plan, for display; None before the first."""
        return self._reporter.progress

    def close(self) -> None:
        """Close the enumerator; may be called twice."""
        if self._opened is not None:
            self._opened.enumerator.close()
            self._opened = None
        self._membership.leave()

    def _open_once(self, before: Offset) -> _Opened:
        if self._opened is None:
            self._check_windows(before)
            enumerator = self._open(before.enumerator)
            if not isinstance(enumerator, SupportsPeek):
                raise ContractError(f"the enumerator of {self._source!r} has no peek() and latest()")
            index, settings = TimeIndex(enumerator), self._settings
            if before.hollow.options_digest == settings.options_digest:
                index.recall(before.hollow.begins, before.progress.positions)
            splits = Splits(
                enumerator,
                self._log,
                self._clocks,
                discovery_interval_s=settings.discovery_interval_s,
                idle_timeout_s=settings.watermarks.idle_timeout.total_seconds(),
                fail_on_data_loss=settings.fail_on_data_loss,
            )
            self._opened = _Opened(enumerator, index, splits, self._generated(before, enumerator))
            if self._bad_records is not None:
                self._bad_records.restore(before.bad_records)
        return self._opened

    def _check_windows(self, stored: Offset) -> None:
        if stored.windows is not None and self._settings.windows is not None:
            check_same_windows(stored.windows, self._settings.windows)

    def _generated(self, before: Offset, enumerator: SplitEnumerator) -> GeneratedWatermarks | None:
        supplier, feed = self._settings.watermarks.generator, self._feed
        if supplier is None or feed is None:
            return None

        def read(wanted: SplitRange) -> TimedRows:
            task = self._task([wanted], enumerator, self._read_at_ms or self._horizon_ms(enumerator))
            return feed.read_timed(task, enumerator.snapshot())

        generated = GeneratedWatermarks(supplier, read, partial(feed.take_events, WATERMARK))
        generated.restore(before.generators, before.progress)
        return generated

    def _plan_to(self, start: Json, budget: Budget, min_rows: int) -> Json | None:
        """Plan once, and return the end of the batch; None: plan again, because a bounded run has waited."""
        last = self._last_offset
        before = last[1] if last is not None and last[0] == start else Offset.from_json(start, self._source)
        first = start == INITIAL_OFFSET
        opened = self._open_once(before)
        woken = self._rest.wait(start, opened.enumerator, opened.splits, bounded=self._is_bounded)
        if woken is Woken.NOT_YET:
            return start
        self._read_at_ms = before.horizon_ms
        current = self._find_splits(before, opened, first=first, look=woken is Woken.BY_NEWS)
        bad_records = self._count_bad_records(before, current)
        limits = self._limits(opened, budget)
        planned, is_nothing, held_by, idle_in_s = self._decide(before, current, opened, limits, first=first)
        is_nothing = is_nothing and bad_records == before.bad_records and not current.has_new_timers
        put_off = not first and self._is_put_off(planned, current, min_rows)
        # A batch that waits is planned many times, and reads nothing before the last one.
        reported = replace(planned, ranges={}, progress=current.progress, oldest_ms=None) if put_off else planned
        self._report(reported, current, opened, bad_records)
        # A repeated offset would end a bounded run, which must not end while other members hold it back.
        if put_off or (is_nothing and held_by is None):
            if idle_in_s <= _LONGEST_WAIT_S:
                self._clocks.sleep(max(0.001, min(idle_in_s, _LOOK_S)))
                return None
            if self._is_bounded:
                self._membership.finished()
                self._log.ended(planned, current.readable)
            self._rest.begin(start, self._changes_by_itself_at_s(opened, current, put_off=put_off))
            return start
        self._rest.end()
        waits = 0 if held_by is None else before.waits + 1
        if planned.ranges:  # rule 8: a clock alone makes no other offset
            before = replace(before, horizon_ms=limits.horizon_ms)
        after = self._offset_after(before, planned, current.starts, opened, waits, bad_records)
        offset = after.to_json()
        self._last_offset = (offset, after)
        opened.splits.stored()
        self._membership.planned(planned)
        self._batch_at_s = self._clocks.monotonic()
        if self._pace is not None:
            self._pace.begin(offset, limits.cost(planned.ranges).rows)
        return offset

    def _find_splits(self, before: Offset, opened: _Opened, *, first: bool, look: bool) -> FoundSplits:
        """Return the splits that exist now, after the generators have seen the rows of the batch before."""
        enumerator, generated = opened.enumerator, opened.generated
        if isinstance(enumerator, SupportsCommit):
            enumerator.commit(needed_from(before.generators, before.progress.positions))
        quiet_since_ms, bounded = before.quiet_since_ms, self._is_bounded
        current = opened.splits.find(
            before.progress, first=first, bounded=bounded, look=look, quiet_since_ms=quiet_since_ms
        )
        if generated is not None:
            positions = {s: at for s, at in before.progress.positions.items() if s not in current.starts}
            readable = {s for s, extent in current.extents.items() if extent.available}
            generated.see(positions, readable, before.progress.watermark_ms)
            generated.begin(current.starts, current.progress.positions, self.batch)
        opened.index.forget(current.diverged)
        return current

    def _report(self, planned: Plan, current: FoundSplits, opened: _Opened, bad_records: int) -> None:
        self._reporter.report(
            planned,
            current,
            opened.enumerator,
            opened.index,
            self._membership.name_of(planned),
            generated=None if opened.generated is None else opened.generated.progress(),
            complete=self._completeness(opened.enumerator) if self._settings.by_completeness else None,
            bad_records=None if self._bad_records is None else bad_records,
        )

    def _offset_after(
        self, before: Offset, planned: Plan, starts: Positions, opened: _Opened, waits: int, bad_records: int
    ) -> Offset:
        positions, settings = planned.progress.positions, self._settings
        return Offset(
            self._source,
            planned.progress,
            starts,
            opened.enumerator.snapshot(),
            self._membership.snapshot(),
            waits,
            Hollow(opened.index.stretches_before(positions, _LONG_STRETCH), settings.options_digest),
            None if opened.generated is None else opened.generated.snapshot(positions),
            bad_records,
            # The state stays in the checkpoint, even if Spark refuses the query of this run.
            before.windows if settings.windows is None else dict(settings.windows),
            opened.splits.quiet_since_ms(positions, planned.progress.idle) if self._is_bounded else {},
            before.horizon_ms,
        )

    def _count_bad_records(self, before: Offset, current: FoundSplits) -> int:
        """Return how many bad records the query has set aside, up to the batch before."""
        if self._bad_records is None:
            return before.bad_records
        self._bad_records.count(before.progress.positions)
        self._bad_records.begin(current.starts)
        return self._bad_records.total

    def _changes_by_itself_at_s(self, opened: _Opened, current: FoundSplits, *, put_off: bool) -> float:
        """Return when a plan may change though no extent does: by a group, by generators or by a clock."""
        holds_by_clock = self._settings.event_times.future == "hold" and current.readable > 0
        says_more = opened.generated is not None or self._settings.by_completeness
        if self._membership.is_member or says_more or holds_by_clock:
            return float("-inf")
        return self._batch_at_s + self._settings.max_trigger_delay_s if put_off else float("inf")

    def _decide(
        self, before: Offset, current: FoundSplits, opened: _Opened, limits: Limits, *, first: bool
    ) -> _Decision:
        """Plan, and plan again while a bounded run can only wait for its group."""
        self._membership.join(before.group)
        index, generated = opened.index, opened.generated
        standing = find_standing(current.progress, current.extents, current.idle, index, limits, added=current.added)
        if generated is not None:
            # Rule 2: a split that waits for the clock holds back no others.
            generated_ms = generated.combine({**standing.states, **dict.fromkeys(standing.held, SplitState.IDLE)})
            standing = with_generated(standing, generated_ms, generated.by_split(), generated.holding(), limits)
        if limits.by_completeness:
            standing = replace(standing, complete_ms=self._completeness(opened.enumerator).until_ms)
        while True:
            planned = plan(standing, self._membership.bound(standing), index, limits)
            # The first offset always differs, or the starts would not be fixed.  Other records with the same positions
            # are news, too: a topic was recreated, and was filled as far as before.
            is_same = not first and not current.starts and planned.progress == before.progress
            is_nothing = is_same and not self._membership.has_news(before.group)
            held_by = self._membership.holder(planned) if is_nothing and self._is_bounded else None
            if held_by is None or not self._membership.wait(held_by):
                waits = is_nothing and self._is_bounded
                idle_in_s = opened.splits.idle_in_s(planned, limits) if waits else inf
                return _Decision(planned, is_nothing, held_by, idle_in_s)

    def _completeness(self, enumerator: SplitEnumerator) -> Completeness:
        if not isinstance(enumerator, SupportsCompleteness):
            raise ContractError(f"the enumerator of {self._source!r} has no completeness()")
        return enumerator.completeness()

    def _is_put_off(self, planned: Plan, current: FoundSplits, min_rows: int) -> bool:
        """Return whether a batch waits for more rows."""
        # A batch that only moves the watermark, or ends the source, does not wait for rows.
        if not planned.ranges or planned.progress.ended or current.has_forgotten or self._is_bounded:
            return False
        delay_s = self._clocks.monotonic() - self._batch_at_s
        return current.readable < min_rows and delay_s < self._settings.max_trigger_delay_s

    def _limits(self, opened: _Opened, budget: Budget) -> Limits:
        if self._pace is not None:
            budget = replace(budget, rows=min(self._pace.rows(), budget.rows or sys.maxsize))
        settings = self._settings
        return Limits(
            aligned=settings.aligned,
            max_drift_ms=settings.watermarks.max_drift_ms,
            drift_by_watermark=settings.drift_by_watermark,
            out_of_orderness_ms=settings.watermarks.out_of_orderness_ms,
            generated=settings.watermarks.generator is not None,
            by_completeness=settings.by_completeness,
            budget=budget,
            stops=opened.splits.stops,
            fail_on_data_loss=settings.fail_on_data_loss,
            late_splits=settings.late_splits,
            horizon_ms=self._horizon_ms(opened.enumerator),  # the only look at the clock for the batch
            holds_future=settings.event_times.future == "hold",
            cost=cost_within(budget, opened.enumerator, self._source),
        )

    def _horizon_ms(self, enumerator: SplitEnumerator) -> int:
        clock = enumerator.wall_clock if isinstance(enumerator, SupportsClock) else self._clocks.wall
        return self._settings.event_times.horizon(int(clock() * 1000)).at_ms

    def _assigned(self, ranges: Collection[SplitRange], of: SplitEnumerator, at_ms: int | None) -> list[ReadTask]:
        supplier = self._settings.watermarks.generator
        tasks = assign(
            ranges,
            self._cores,
            self._settings.min_tasks,
            cost_of_rows(of),
            divisible=supplier is None or new_generator(supplier).is_divisible,
            max_positions=self._settings.max_positions_per_task,
        )
        at_ms = at_ms or self._horizon_ms(of)  # of a batch query, or of a batch that another source has planned
        return [self._task(task, of, at_ms) for task in tasks]

    @staticmethod
    def _task(ranges: Iterable[SplitRange], enumerator: SplitEnumerator, horizon_ms: int) -> ReadTask:
        wanted = tuple(ranges)
        details = map(enumerator.details, wanted) if isinstance(enumerator, SupportsDetails) else ()
        return ReadTask(wanted, tuple(details), Horizon(horizon_ms))
