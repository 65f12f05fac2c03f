"""The source coordinator: from an enumerator and a plan to the offsets that Spark asks for.

FLIP-27 calls it SourceCoordinator.  It lives in the planner process of a query, knows nothing of
Spark, and holds only soft state: caches, idle timers, and the targets of a bounded run.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tidegate.alignment.budget import UNLIMITED, Budget, CostOf, split_rows
from tidegate.alignment.index import SupportsPeek, TimeIndex
from tidegate.alignment.plan import LateSplits, Limits, Plan
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent, Extents, Positions, SplitId, SplitRange
from tidegate.alignment.standing import find_standing
from tidegate.alignment.states import SplitState
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.clocks import REAL_CLOCKS, Clocks
from tidegate.enumerators.contract import (
    Json,
    SplitEnumerator,
    SupportsAvailability,
    SupportsClock,
    SupportsCommit,
    SupportsCost,
    SupportsDetails,
    SupportsMetrics,
    SupportsOvershoot,
    SupportsValidation,
)
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.assigner import assign
from tidegate.enumerators.planning.checkpoint import INITIAL_OFFSET, Checkpoint, Hollow
from tidegate.enumerators.planning.pace import BatchPace
from tidegate.enumerators.planning.report import Reporter
from tidegate.enumerators.planning.retention import RetentionWatch
from tidegate.errors import ContractError, DataLossError, PositionGoneError, UnavailableError
from tidegate.readers.contract import ReadTask

__all__ = ["CoordinatorSettings", "SourceCoordinator"]

_LOG = logging.getLogger("tidegate.planner")
_MORE_ATTEMPTS = 4
_LONG_STRETCH = 1000  # positions without a record to align by that a restart need not look through again
_POLL_INTERVAL_S = 0.1  # Spark itself asks about 90 times a second while nothing comes


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """The settings that a source gives its coordinator; see the options of the same names.

    hold_beyond_ms: further ahead of the wall clock nothing is read.
    options_digest: another one where any option is: what was left out may count now.
    """

    watermarks: WatermarkStrategy
    aligned: bool = True
    fail_on_data_loss: bool = True
    late_splits: LateSplits = "admit"
    hold_beyond_ms: int | None = None
    discovery_interval_s: float = 30.0
    min_tasks: int | None = None
    max_trigger_delay_s: float = 900.0
    options_digest: str = ""


class _IdleTimers:
    """Since when each split has had nothing to read: a fact from its extent, not from rows seen."""

    def __init__(self, timeout_s: float, clock: Callable[[], float]) -> None:
        self._timeout_s, self._clock = timeout_s, clock
        self._since: dict[SplitId, float] = {}

    def observe(self, positions: Positions, extents: Extents, idle_before: Collection[SplitId]) -> set[SplitId]:
        """Return the splits that are idle now.  One that was idle before a restart still is, if nothing came."""
        now = self._clock()
        self._since = {
            split: self._since.get(split, now - self._timeout_s if split in idle_before else now)
            for split, extent in extents.items()
            if extent.settled and positions[split] >= extent.end
        }
        return {split for split, since in self._since.items() if now - since >= self._timeout_s}


class SourceCoordinator:
    """Answers Spark's questions for one run of one source.

    source: the connector's name, written into every offset.
    open_enumerator: called once, with the snapshot found in the start offset.
    cores: how many tasks the cluster runs at once.
    group: None: the source is in none.
    pace: None: batches do not size themselves.
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
    ) -> None:
        self._source, self._open, self._settings, self._cores = source, open_enumerator, settings, cores
        self._group, self._pace, self._clocks = group, pace, clocks
        self._reporter, self._retention = Reporter(source), RetentionWatch()
        self._lookups = self._peeks = 0
        self._timers = _IdleTimers(settings.watermarks.idle_timeout.total_seconds(), clocks.monotonic)
        self._enumerator: SplitEnumerator | None = None
        self._index: TimeIndex | None = None
        self._splits: dict[SplitId, None] = {}  # an ordered set
        self._discovered_at = self._extents_at = float("-inf")
        self._extents: Extents = {}
        self._away: Mapping[SplitId, str] = {}  # why nobody can look at them now
        self._anew: dict[SplitId, int] = {}  # where splits go on that hold other records now, until an offset says so
        self._known_removed: Collection[SplitId] = ()
        self._stops: dict[SplitId, int | None] = {}
        self._targets: dict[SplitId, int] | None = None
        self._bounded = False
        self._nothing_came = False
        self._planned: Plan | None = None
        self._batch_at = clocks.monotonic()
        self._report: Json | None = None

    def bound_run(self) -> None:
        """Fix the ends of this run at what can be read now (Trigger.AvailableNow)."""
        self._bounded = True

    def latest_offset(self, start: Json, budget: Budget = UNLIMITED, min_rows: int = 0) -> Json:
        """Return the end of the next batch; ``start`` itself when there is nothing to do.

        min_rows: plan no batch while fewer rows can be read, but no longer than the trigger delay,
            and not in a bounded run.
        """
        for _ in range(_MORE_ATTEMPTS):
            # Records that are deleted while a plan is made are data loss or none, as their extents say. Splits
            # that nobody can look at any more are left out of the next plan.
            with suppress(PositionGoneError, UnavailableError):
                return self._plan_to(start, budget, min_rows)
        return self._plan_to(start, budget, min_rows)

    def _plan_to(self, start: Json, budget: Budget, min_rows: int) -> Json:
        before = Checkpoint.from_json(start, self._source)
        enumerator, index = self._opened(before)
        if self._nothing_came:
            self._clocks.sleep(max(0.0, self._extents_at + _POLL_INTERVAL_S - self._clocks.monotonic()))
        if isinstance(enumerator, SupportsCommit):
            enumerator.commit(before.progress.positions)
        first = start == INITIAL_OFFSET
        self._refresh(enumerator, all_needed=first or self._bounded)
        remembered = self._remembered(enumerator, before.progress.positions)
        self._find_divergences(enumerator, remembered)
        if self._anew:
            index.forget_before({s: at for s, at in remembered.items() if s not in self._anew})
        # A split of which nothing is known yet waits: its start would be stored without a position.
        new = [s for s in self._splits if s in self._extents and s not in before.progress.positions]
        starts = {**self._anew, **self._starts(enumerator, new, first=first)}
        known = {**remembered, **starts}
        found = {s: extent for s, extent in self._extents.items() if s in known} | {
            s: Extent(known[s], known[s], settled=s in before.progress.idle, available=False)
            for s in self._away
            if s in known
        }
        extents = {s: self._extent(s, extent, known[s]) for s, extent in found.items()}
        # By what there is, not by the targets of a bounded run: only who has nothing to read is idle.
        idle = self._timers.observe(known, found, before.progress.idle)
        if self._pace is not None:
            budget = replace(budget, rows=min(self._pace.rows(), budget.rows or sys.maxsize))
        limits = self._limits(enumerator, budget)
        if self._group is not None:
            self._group.join(before.group)
        progress = replace(before.progress, positions=known)
        standing = find_standing(progress, extents, idle, index, limits, added=() if first else [*new, *self._anew])
        while True:
            group_bound = None if self._group is None else self._group.bound(standing.low_ms, progress.bound_ms)
            planned = plan(standing, group_bound, index, limits)
            # The first offset always differs, or the starts would not be fixed.
            nothing = not first and planned.progress == before.progress and not self._group_has_news(before)
            held_by = self._held_by_group(planned) if nothing and self._bounded else None
            if self._group is None or held_by is None or not self._group.wait(held_by):
                break
        self._describe(planned, extents, enumerator, index)
        # What only moves the watermark, or ends the source, does not wait for rows.
        has_forgotten = before.progress.positions.keys() > remembered.keys()
        wants_rows = bool(planned.ranges) and not planned.progress.ended and not first and not has_forgotten
        put_off = wants_rows and self._is_put_off(extents, known, min_rows)
        # A bounded run ends with an offset that repeats, and must not while others hold it.
        self._nothing_came = put_off or (nothing and held_by is None)
        if self._nothing_came:
            return start
        offset = Checkpoint(
            planned.progress,
            starts,
            enumerator.snapshot(),
            None if self._group is None else self._group.snapshot(),
            0 if held_by is None else before.waits + 1,
            Hollow(index.stretches_before(planned.progress.positions, _LONG_STRETCH), self._settings.options_digest),
        ).to_json(self._source)
        self._planned, self._batch_at = planned, self._clocks.monotonic()
        self._anew = {}
        if self._pace is not None:
            self._pace.begin(offset, limits.cost(planned.ranges).rows)
        return offset

    def _group_has_news(self, before: Checkpoint) -> bool:
        """Tell whether the next offset must name this source's group, or new members of it."""
        return self._group is not None and (before.group is None or self._group.grew())

    def _is_put_off(self, extents: Extents, positions: Positions, min_rows: int) -> bool:
        delay_s = self._clocks.monotonic() - self._batch_at
        readable = sum(max(0, self._limited_end(s, extent) - positions[s]) for s, extent in extents.items())
        return readable < min_rows and delay_s < self._settings.max_trigger_delay_s and not self._bounded

    def tasks(self, start: Json, end: Json) -> list[ReadTask]:
        """Return the tasks of the batch between two offsets: the same for the same offsets."""
        before, after = Checkpoint.from_json(start, self._source), Checkpoint.from_json(end, self._source)
        if self._group is not None:
            self._tell_group(after)
        enumerator, _ = self._opened(after)
        if start == end:  # its starts are of the batch before
            return []
        ranges = [
            SplitRange(split, begin, position)
            for split, position in after.progress.positions.items()
            if (begin := after.start_of(split, before)) < position
        ]
        return self._assigned(ranges, enumerator)

    def _assigned(self, ranges: Collection[SplitRange], enumerator: SplitEnumerator) -> list[ReadTask]:
        tasks = assign(ranges, self._cores, self._settings.min_tasks, _cost_of_rows(enumerator))
        if not isinstance(enumerator, SupportsDetails):
            return [ReadTask(task) for task in tasks]
        return [ReadTask(task, tuple(map(enumerator.details, task))) for task in tasks]

    def _tell_group(self, after: Checkpoint) -> None:
        """Tell what is left after a batch: Spark has stored its offset, so whatever comes, it will be read."""
        if self._group is None:
            return
        if self._planned is not None:
            self._group.tell(self._planned.next_low_ms)
        else:
            # A batch that is replayed, before the first plan of this run: nothing unread is older than this.
            self._group.join(after.group)
            drift_ms = self._settings.watermarks.max_drift_ms or 0
            self._group.tell(0 if after.progress.bound_ms is None else after.progress.bound_ms - drift_ms)

    def everything(self) -> tuple[list[ReadTask], Json | None]:
        """Return the tasks of a batch query, and the enumerator's snapshot.

        Every split is read from its start to its stop or its present end.
        """
        enumerator, _ = self._opened(Checkpoint())
        self._refresh(enumerator, all_needed=True)
        starts = self._starts(enumerator, self._splits, first=True)
        ends = {s: self._limited_end(s, extent) for s, extent in self._extents.items()}
        ranges = [SplitRange(s, starts[s], ends[s]) for s in self._splits if s in ends and starts[s] < ends[s]]
        return self._assigned(ranges, enumerator), enumerator.snapshot()

    def report(self) -> Json | None:
        """Return what the last plan decided, for people and progress bars; None before the first."""
        return self._report

    def close(self) -> None:
        """Close the enumerator; may be called twice."""
        if self._enumerator is not None:
            self._enumerator.close()
            self._enumerator = self._index = None
        if self._group is not None:
            self._group.leave()

    def _opened(self, before: Checkpoint) -> tuple[SplitEnumerator, TimeIndex]:
        if self._enumerator is None or self._index is None:
            self._enumerator = self._open(before.enumerator)
            if not isinstance(self._enumerator, SupportsPeek):
                raise ContractError(f"the enumerator of {self._source!r} has no peek() and latest()")
            self._index = TimeIndex(self._enumerator)
            if before.hollow.options_digest == self._settings.options_digest:
                self._index.recall(before.hollow.begins, before.progress.positions)
        return self._enumerator, self._index

    def _refresh(self, enumerator: SplitEnumerator, *, all_needed: bool) -> None:
        now = self._clocks.monotonic()
        if now - self._discovered_at >= self._settings.discovery_interval_s and self._targets is None:
            splits = dict.fromkeys(sorted(enumerator.discover()))
            self._stops |= enumerator.stops([s for s in splits if s not in self._stops])
            # Not before its end is known, for a partition may have no leader now.
            self._splits, self._discovered_at = splits, now
        if isinstance(enumerator, SupportsAvailability) and not all_needed:
            self._extents, self._away = enumerator.available_extents(self._splits)
        else:
            self._extents, self._away = enumerator.extents(self._splits), {}
        self._reporter.unavailable(self._away)
        self._extents_at = now
        if self._bounded and self._targets is None:
            self._targets = {s: extent.end for s, extent in self._extents.items()}

    def _starts(self, enumerator: SplitEnumerator, new: Collection[SplitId], *, first: bool) -> dict[SplitId, int]:
        if not new:
            return {}
        starts = dict(enumerator.starts(new, first=first))
        if first:
            _LOG.info("%s begins with %d splits", self._source, len(starts))
        else:
            self._reporter.new_splits([s for s in new if not self._extents[s].complete])
        # A start may have been resolved a moment after the extents that it is compared with.
        self._extents = {s: self._grown(extent, starts.get(s)) for s, extent in self._extents.items()}
        return starts

    def _remembered(self, enumerator: SplitEnumerator, positions: Positions) -> Positions:
        """Return the positions without those of splits that are gone for good.

        Raises DataLossError when unread records are gone with a split.
        """
        removed = {s: position for s, position in positions.items() if s not in self._splits}
        if removed.keys() - set(self._known_removed):
            forgotten = set(enumerator.forget(removed))
            removed = {s: position for s, position in removed.items() if s not in forgotten}
            if self._settings.fail_on_data_loss and (lost := sorted(enumerator.lost(removed))):
                raise DataLossError(
                    f"split {lost[0]!r}, read up to position {removed[lost[0]]}, exists no more; "
                    "set failOnDataLoss to false to go on without it"
                )
            positions = {s: position for s, position in positions.items() if s not in forgotten}
            self._stops = {s: stop for s, stop in self._stops.items() if s not in forgotten}
        self._known_removed = removed.keys()
        return positions

    def _find_divergences(self, enumerator: SplitEnumerator, positions: Positions) -> None:
        """Learn which splits hold other records now.  Raises DataLossError for them, unless that is accepted."""
        found = enumerator.validate(positions) if isinstance(enumerator, SupportsValidation) and positions else {}
        if found and self._settings.fail_on_data_loss:
            split = min(found)
            raise DataLossError(
                f"split {split!r} was read up to position {positions[split]}, but {found[split].reason}; start with "
                f"a new checkpoint, or set failOnDataLoss to false to go on from position {found[split].position}"
            )
        self._reporter.diverged(found)
        # A plan may fail after this, and the enumerator tells it only once.
        self._anew.update({s: divergence.position for s, divergence in found.items()})
        self._anew = {s: at for s, at in self._anew.items() if s in positions}

    @staticmethod
    def _grown(extent: Extent, start: int | None) -> Extent:
        return extent if start is None or start <= extent.end else replace(extent, end=start)

    def _extent(self, split: SplitId, extent: Extent, position: int) -> Extent:
        if self._targets is None or extent.end < position:
            return extent
        # A split that had no extent at the run's start, and has one now, is left to the next run.
        target = self._targets.get(split, extent.begin)
        return replace(extent, end=max(min(extent.end, target), position))

    @staticmethod
    def _held_by_group(planned: Plan) -> str | None:
        paused = any(said.state is SplitState.PAUSED for said in planned.splits.values())
        return planned.held_by if paused and planned.held_by not in planned.splits else None

    def _limited_end(self, split: SplitId, extent: Extent) -> int:
        stop = self._stops[split]
        return extent.end if stop is None else min(extent.end, stop)

    def _limits(self, enumerator: SplitEnumerator, budget: Budget) -> Limits:
        cost: CostOf = split_rows
        rows_alone = budget == Budget(rows=budget.rows)
        if isinstance(enumerator, SupportsCost):
            cost = _cost_of_rows(enumerator) if rows_alone else enumerator.cost
        elif not rows_alone:
            raise ContractError(f"the enumerator of {self._source!r} has no cost(), so that only rows can be limited")
        strategy = self._settings.watermarks
        return Limits(
            aligned=self._settings.aligned,
            max_drift_ms=strategy.max_drift_ms,
            out_of_orderness_ms=strategy.out_of_orderness_ms,
            budget=budget,
            stops=self._stops,
            bounded=self._bounded,
            fail_on_data_loss=self._settings.fail_on_data_loss,
            late_splits=self._settings.late_splits,
            horizon_ms=self._horizon_ms(enumerator),
            cost=cost,
        )

    def _horizon_ms(self, enumerator: SplitEnumerator) -> int | None:
        skew_ms = self._settings.hold_beyond_ms
        clock = enumerator.wall_clock if isinstance(enumerator, SupportsClock) else self._clocks.wall
        return None if skew_ms is None else int(clock() * 1000) + skew_ms + 1

    def _describe(self, planned: Plan, extents: Extents, enumerator: SplitEnumerator, index: TimeIndex) -> None:
        now_s, positions = self._clocks.monotonic(), planned.progress.positions
        ends = {s: self._limited_end(s, extent) for s, extent in extents.items()}
        self._report = self._reporter.report(
            planned,
            ends,
            int(self._clocks.wall() * 1000),
            self._retention.seconds_left(now_s, positions, {s: e for s, e in extents.items() if e.available}),
            {"lookups": index.lookups - self._lookups, "peeks": index.peeks - self._peeks},
            _cost_of_rows(enumerator),
            metrics=enumerator.metrics() if isinstance(enumerator, SupportsMetrics) else {},
            overshoot_ms=_overshoot_ms(enumerator, planned),
        )
        if self._group is not None and planned.held_by not in planned.splits and planned.held_by is not None:
            self._report["heldBy"] = self._group.name_of(planned.held_by)
        self._lookups, self._peeks = index.lookups, index.peeks


def _overshoot_ms(enumerator: SplitEnumerator, planned: Plan) -> int | None:
    bound_ms = planned.progress.bound_ms
    if not isinstance(enumerator, SupportsOvershoot) or bound_ms is None:
        return None
    return enumerator.overshoot_ms(planned.ranges, bound_ms)


def _cost_of_rows(enumerator: SplitEnumerator) -> CostOf:
    """Return what counts rows; it may leave out other units."""
    if isinstance(enumerator, SupportsCost) and not enumerator.positions_are_rows:
        return enumerator.cost
    return split_rows
