"""The source coordinator: creates the offsets that Spark asks for, from an enumerator and plans.

FLIP-27 calls it SourceCoordinator.  It lives in the planner process of a query, and knows nothing about Spark.  It
holds only soft state: the answers of this run, and the last plan.

A plan is pure, so all exchange with an alignment group happens here.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.alignment.generators import new_generator
from tidegate.alignment.group import GroupBound
from tidegate.alignment.plan import Limits, Observed, Plan, SplitState
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import SplitRange
from tidegate.alignment.standing import Standing
from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks
from tidegate.enumerators.contract import Json, SplitEnumerator
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.assigner import assign
from tidegate.enumerators.planning.generated import ReaderFeed
from tidegate.enumerators.planning.observing import Observer
from tidegate.enumerators.planning.offset import Hollow, Offset
from tidegate.enumerators.planning.pace import BatchPace
from tidegate.enumerators.planning.reporter import ProgressReporter
from tidegate.enumerators.planning.run_log import RunLog
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.errors import PositionGoneError, UnavailableError
from tidegate.readers.contract import ReadTask

_LOG = logging.getLogger("tidegate.planner")
_MORE_ATTEMPTS = 4
_LONG_STRETCH = 1000  # positions without a record to align by; a restart need not search a longer stretch again


class _Decision(NamedTuple):
    """A plan, and its consequences for the run.

    is_nothing: the plan changes nothing, so the offset need not change.
    held_by: the member of the group that keeps a bounded run from its end.
    """

    planned: Plan
    is_nothing: bool
    held_by: str | None


class SourceCoordinator:
    """Answers Spark's questions for one run of one source.

    source: the connector's name, written into every offset.
    open_enumerator: called once, with the snapshot from the start offset.
    cores: how many tasks the cluster runs at once.
    pace: sizes the batches; None: batches do not size themselves.
    feed: the events of watermark generators and about bad records.
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
        self._group = group
        self._pace, self._clocks, self._feed = pace, clocks, feed
        self._log = RunLog(source)
        self._reporter = ProgressReporter(self._log, clocks)
        self._opened: Observer | None = None
        self._is_bounded = False
        self._last_offset: tuple[Json, Offset] | None = None  # as JSON, so that it need not be read again
        self._batch_at_s = clocks.monotonic()
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
        if self._group is not None:
            self._group.stored(after.group, after.progress, bounded=self._is_bounded)
        before.check_add_ons(self._settings.add_ons)
        opened = self._open_once(after)
        if before == after:  # the starts in ``after`` belong to an earlier batch
            return []
        ranges = [
            SplitRange(split, begin, position)
            for split, position in after.progress.positions.items()
            if (begin := after.start_of(split, before)) < position
        ]
        return self._assigned(ranges, opened, after.horizon_ms)

    def everything(self) -> tuple[list[ReadTask], Json | None]:
        """Return the tasks of a batch query, and the enumerator's snapshot.

        Every split is read from its start to its stop or its present end.
        """
        opened = self._open_once(Offset())
        return self._assigned(opened.splits.everything(), opened, None), opened.enumerator.snapshot()

    def source_progress(self) -> Json | None:
        """Return the decisions of the last plan, for display; None before the first."""
        return self._reporter.progress

    def close(self) -> None:
        """Close the enumerator; may be called twice."""
        if self._opened is not None:
            self._opened.enumerator.close()
            self._opened = None
        if self._group is not None:
            self._group.leave()

    def _open_once(self, before: Offset) -> Observer:
        if self._opened is None:
            before.check_add_ons(self._settings.add_ons)
            enumerator = self._open(before.enumerator)
            self._opened = Observer(
                self._source, enumerator, before, self._settings, log=self._log, clocks=self._clocks, feed=self._feed
            )
        return self._opened

    def _plan_to(self, start: Json, budget: Budget, min_rows: int) -> Json:
        """Plan once, and return the end of the batch."""
        last = self._last_offset
        before = last[1] if last is not None and last[0] == start else Offset.from_json(start, self._source)
        opened = self._open_once(before)
        observed = opened.observe(start, before, self.batch, bounded=self._is_bounded)
        if observed is None:
            return start
        limits = opened.limits(self._sized(budget))
        planned, is_nothing, held_by = self._decide(before, observed, opened, limits)
        unread = sum(max(0, end - observed.progress.positions[s]) for s, end in planned.ends.items())
        put_off = unread < min_rows and self._may_put_off(before, planned, observed)
        # A batch that waits is planned many times, and reads nothing before the last one.
        reported = replace(planned, ranges={}, progress=observed.progress, oldest_ms=None) if put_off else planned
        self._reporter.report(reported, observed.extents, opened, self._holder_name(reported))
        # A repeated offset would end a bounded run, which must not end while other members hold it back.
        if put_off or (is_nothing and held_by is None):
            is_done = not put_off and (self._is_bounded or holding_member(planned) is None)
            if self._group is not None:
                self._group.tell_done(done=is_done)
            if self._is_bounded:
                self._log.ended(reported, unread, self._holder_name(planned))
            opened.pause(start, self._changes_by_itself_at_s(opened, unread, put_off=put_off))
            return start
        offset = self._commit(before, planned, observed, opened, waits=0 if held_by is None else before.waits + 1)
        if self._pace is not None:
            self._pace.begin(offset, limits.cost(planned.ranges).rows)
        return offset

    def _commit(self, before: Offset, planned: Plan, observed: Observed, opened: Observer, waits: int) -> Json:
        """Return the offset of a plan, which the next plan begins with."""
        progress, settings = planned.progress, self._settings
        if settings.spark_follows_watermark and before.progress.ended and planned.ranges:
            _LOG.warning(
                "the last run ended with a watermark of plus infinity, and Spark's never goes back: all rows of this "
                "run are late; begin with a new checkpoint"
            )
        after = Offset(
            self._source,
            progress,
            observed.starts,
            opened.enumerator.snapshot(),
            None if self._group is None else self._group.snapshot(),
            waits,
            Hollow(opened.index.stretches_before(progress.positions, _LONG_STRETCH), settings.options_digest),
            None if opened.generated is None else opened.generated.snapshot(progress.positions),
            opened.bad_record_count(before),
            # The state stays in the checkpoint, even if Spark refuses the query of this run.
            {**before.add_ons, **settings.add_ons},
            opened.splits.quiet(progress.positions, progress.idle),
            # Rule 8: a clock alone makes no other offset.  But a batch that reads always has another one, even if a
            # split that holds other records now is read from and to where the batch before did.  A batch that only
            # passes over deleted records also has tasks, and its repeat must plan the same ones.
            opened.horizon_ms
            if planned.ranges or progress.positions != before.progress.positions
            else before.horizon_ms,
        )
        offset = after.to_json()
        self._last_offset = (offset, after)
        opened.splits.stored()
        opened.go_on()
        if self._group is not None:
            self._group.planned(planned.next_low_ms)
        self._batch_at_s = self._clocks.monotonic()
        return offset

    def _changes_by_itself_at_s(self, opened: Observer, unread: int, *, put_off: bool) -> float:
        """Return when a plan may change though no extent does: by a group, by generators or by a clock."""
        holds_by_clock = self._settings.event_times.future == "hold" and unread > 0
        says_more = opened.generated is not None or self._settings.limits.by_completeness
        if self._group is not None or says_more or holds_by_clock:
            return float("-inf")
        return self._batch_at_s + self._settings.max_trigger_delay_s if put_off else float("inf")

    def _decide(self, before: Offset, observed: Observed, opened: Observer, limits: Limits) -> _Decision:
        """Plan, and plan again while a bounded run can only wait for its group."""
        group = self._group
        if group is not None:
            group.go_on(before.group, before.progress, bounded=self._is_bounded)
        while True:
            planned = plan(observed, limits, opened.index, self._group_bound)
            # The first offset always differs, or the starts would not be fixed.  Other records with the same positions
            # are also news: a topic was recreated, and was filled as far as before.
            is_same = not before.is_first and not observed.starts and planned.progress == before.progress
            is_nothing = is_same and (group is None or not group.grew())
            holder = holding_member(planned) if is_nothing and self._is_bounded else None
            held_by = holder if group is not None and group.waits_for(holder) else None
            if group is None or held_by is None or not group.wait(held_by):
                has_news = opened.splits.has_new_timers or opened.bad_record_count(before) != before.bad_records
                has_news |= is_nothing and opened.enumerator.has_news(before.enumerator)
                if group is not None and holder is not None and held_by is None:
                    has_news |= group.has_news_of(holder)
                return _Decision(planned, is_nothing and not has_news, held_by)

    def _group_bound(self, standing: Standing) -> GroupBound | None:
        """Report our low to the other members of the group, and return the bound that they set for us."""
        if self._group is None:
            return None
        until_ms = standing.before.bound_ms  # while a member is missing, nothing past the last bound is read
        if until_ms is None:
            until_ms = min(standing.heads_ms.values(), default=None)
        return self._group.bound(standing.group_low_ms, until_ms)

    def _holder_name(self, planned: Plan) -> str | None:
        """Return the name of the split or the member that sets the bound, for display."""
        held_by = planned.held_by
        if self._group is None or held_by is None or held_by in planned.splits:
            return held_by
        return self._group.name_of(held_by)

    def _may_put_off(self, before: Offset, planned: Plan, observed: Observed) -> bool:
        """Return whether a batch may wait for more rows."""
        # A batch that only moves the watermark, ends the source or forgets a split does not wait for rows.
        if before.is_first or not planned.ranges or planned.progress.ended or self._is_bounded:
            return False
        if not before.progress.positions.keys() <= observed.progress.positions.keys():
            return False
        return self._clocks.monotonic() - self._batch_at_s < self._settings.max_trigger_delay_s

    def _sized(self, budget: Budget) -> Budget:
        if self._pace is None:
            return budget
        return replace(budget, rows=min(self._pace.rows(), budget.rows or sys.maxsize))

    def _assigned(self, ranges: Collection[SplitRange], opened: Observer, at_ms: int | None) -> list[ReadTask]:
        generator = self._settings.watermarks.generator
        divisible = generator is None or new_generator(generator).is_divisible
        assigned = assign(ranges, self._cores, self._settings.tasks, opened.cost_of_rows, divisible=divisible)
        at_ms = at_ms or opened.horizon_now_ms()  # of a batch query, or of a batch that another source has planned
        return [opened.task(task, at_ms) for task in assigned]


def holding_member(planned: Plan) -> str | None:
    """Return the member of the group that holds back one of our splits."""
    paused = any(split.state is SplitState.PAUSED for split in planned.splits.values())
    return planned.held_by if paused and planned.held_by not in planned.splits else None
