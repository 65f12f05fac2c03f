"""The progress of a source after each plan: the JSON that ``reportLatestOffset`` shows in Spark's progress.

    {"watermark": ms, "bound": ms, "low": ms,   of the source, after the plan; null: there is none
     "heldBy": "orders-3",                      the split, or member of the group, that sets the bound
     "groupBound": ms,                          the bound that the other members of the group set for this source
     "splits": {"paused": 2, "reading": 1},     the number of splits in each state
     "spread": [ms, ms, ms],                    next event times: of the slowest split, the median, the fastest
     "plannedRows": 500,                        the rows of the batch, as far as known before it is read
     "rowsRemaining": 1200,                     lag in rows: readable, and not planned yet
     "numFilesOutstanding": 3,                  the same in objects, for a source that reads objects,
     "numBytesOutstanding": 9000,               and in bytes
     "eventTimeLag": ms,                        now minus the oldest unread event time; 0: none is unread
     "oldestEventTime": ms,                     of the first records that the batch reads; null: none is known
     "currentFetchEventTimeLag": ms,            now minus that time, as in FLIP-33; null: none is known
     "mostBehind": ["orders-3", 900, ms],       the split with the oldest record: its lag in rows and event time
     "lateRows": 0, "lateRowsTotal": 17,        rows read behind the watermark, by this plan and by this run
     "lateSplits": ["orders-7"],                splits that came, or woke, behind it; the first ten
     "paused": {"orders-2": ms},                since when (wall clock) splits are paused; the longest ten
     "lookups": 1, "peeks": 2,                  requests to the time index by this plan
     "inexactSplits": 0,                        splits cut by probing, because the index is blind there: such a batch
                                                passes the bound by at most the split's disorder
     "overshoot": ms,                           how far the batch passes the bound, because chunks are read whole
     "secondsToDeletion": {"orders-2": 340},    the time until unread records are deleted, if it can be estimated
     "unavailableSplits": ["orders-4"],         splits that cannot be reached now, if any; the first ten
     "divergedSplits": ["orders-5"],            splits with other records than this run has read; the first ten
     "badRecordsTotal": 7,                      set aside by the query before this batch, if it sets any aside
     "metrics": {"approximateQueueSize": 7},    the connector's own metrics, if it has any
     "orders": {"0": 2700, "1": 7},             entries of the connector's own: Kafka's ends by topic and partition
     "generated": {"heldBy": "orders-1",        the split that holds back the watermark of generators, if there are any
                   "readHere": 0,               how many positions the planner itself has shown them in this run
                   "rows": 900, "lateRows": 2,  the rows that they saw in this run, and those behind the watermark
                   "bySplit": {"orders-0": [ms, "active"]}},   watermark and status, up to 100 splits
     "completeness": {"until": ms,              folders are complete by their markers up to this time, if there are any
                      "next": ms},              the folder that holds back the watermark; null: none does
     "planner": "9f1c...",                      the name of the planner process
     "reads": "orders at kafka:9092",           what is read, for people
     "bySplit": {"orders-0": ["reading", ms, 5]}}   state, next event time, rows left; up to 100 splits

The JSON is small for any number of splits, because Spark keeps it twice in each progress.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tidegate.alignment.budget import Cost, CostOf, split_rows
from tidegate.alignment.plan import Plan
from tidegate.alignment.splits import Positions, SplitId, SplitRange
from tidegate.alignment.states import SplitState
from tidegate.enumerators.contract import Divergence, Json

__all__ = ["ProgressReporter", "first_names"]

_LOG = logging.getLogger("tidegate.planner")
_DETAILED_SPLITS = 100
_NAMED_SPLITS = 10
_DELETED_SOON_S = 3600.0


class ProgressReporter:
    """Describes the plans of one run, and logs once what users should know."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._paused_since: dict[SplitId, int] = {}
        self._late_rows = 0
        self._warned: dict[str, set[SplitId]] = {}
        self._diverged: set[SplitId] = set()

    def describe(
        self,
        planned: Plan,
        ends: Positions,
        now_ms: int,
        seconds_left: Mapping[SplitId, float],
        asked: Mapping[str, int],
        cost: CostOf = split_rows,
        *,
        metrics: Mapping[str, int] | None = None,
        overshoot_ms: int | None = None,
    ) -> Json:
        """Return the JSON of a plan.  Called once per plan.

        ends: the position up to which each split could be read.
        asked: the plan's requests to the time index, by their names in the progress.
        cost: what ranges cost.
        metrics: the connector's own metrics.
        overshoot_ms: how far the batch passes the bound; None: there is no bound, or no position can pass it.
        """
        progress, splits = planned.progress, planned.splits
        by_state: dict[SplitState, list[SplitId]] = {}
        for split, said in splits.items():
            by_state.setdefault(said.state, []).append(split)
        left = {s: (at, end) for s, end in ends.items() if (at := progress.positions.get(s, end)) < end}
        remaining, outstanding = _remaining(left, cost)
        unread = {s: splits[s].next_ms for s in left}
        oldest = min(((at_ms, s) for s, at_ms in unread.items() if at_ms is not None), default=None)
        paused = by_state.get(SplitState.PAUSED, [])
        self._paused_since = {s: self._paused_since.get(s, now_ms) for s in paused}
        late_rows = _late_rows(planned, cost)
        self._late_rows += late_rows
        late = {*progress.late, *(s for s, said in splits.items() if said.late)}
        in_danger = {s: left for s, left in seconds_left.items() if left < _DELETED_SOON_S}
        self._log(by_state.get(SplitState.REMOVED, []), late, in_danger)
        described: Json = {
            "watermark": progress.watermark_ms,
            "bound": progress.bound_ms,
            "low": planned.low_ms,
            "heldBy": planned.held_by,
            "groupBound": planned.group_bound_ms,
            "splits": dict(
                sorted(Counter({state.value: len(in_state) for state, in_state in by_state.items()}).items())
            ),
            "spread": _spread(said.next_ms for said in splits.values()),
            "plannedRows": cost(planned.ranges).rows,
            "rowsRemaining": sum(remaining.values()),
            **_objects(outstanding),
            "eventTimeLag": 0 if oldest is None else max(0, now_ms - oldest[0]),
            "oldestEventTime": planned.oldest_ms,
            "currentFetchEventTimeLag": None if planned.oldest_ms is None else max(0, now_ms - planned.oldest_ms),
            "mostBehind": None if oldest is None else [oldest[1], remaining[oldest[1]], max(0, now_ms - oldest[0])],
            "lateRows": late_rows,
            "lateRowsTotal": self._late_rows,
            "lateSplits": sorted(late)[:_NAMED_SPLITS],
            "paused": dict(sorted(self._paused_since.items(), key=lambda item: item[::-1])[:_NAMED_SPLITS]),
            **asked,
            "inexactSplits": len([1 for said in splits.values() if not said.exact]),
            "secondsToDeletion": {
                s: round(left) for s, left in sorted(seconds_left.items(), key=lambda item: item[1])[:_NAMED_SPLITS]
            },
        }
        if overshoot_ms is not None:
            described["overshoot"] = overshoot_ms
        if away := self._warned.get("unavailable"):
            described["unavailableSplits"] = sorted(away)[:_NAMED_SPLITS]
        if self._diverged:
            described["divergedSplits"] = sorted(self._diverged)[:_NAMED_SPLITS]
        if metrics:
            described["metrics"] = dict(sorted(metrics.items()))
        if len(splits) <= _DETAILED_SPLITS:
            described["bySplit"] = {
                s: [said.state.value, said.next_ms, remaining.get(s, 0)] for s, said in sorted(splits.items())
            }
        return described

    def begun(self, splits: int) -> None:
        """Log the number of splits that the query begins with."""
        _LOG.info("%s begins with %d splits", self._source, splits)

    def new_splits(self, splits: Collection[SplitId]) -> None:
        """Log that splits were found during the run."""
        if not splits:
            return
        _LOG.warning("%s found new splits, read from their beginning: %s", self._source, first_names(splits))

    def ended(self, planned: Plan, unread: int) -> None:
        """Log that a bounded run ends before others have been read to their targets, and which split they wait for."""
        waiting = [s for s, said in planned.splits.items() if said.state is SplitState.PAUSED]
        holder = planned.splits.get(planned.held_by or "")
        is_held = holder is not None and holder.state is SplitState.CAUGHT_UP
        if unread and is_held and self._news("unread at the end", waiting):
            _LOG.warning(
                "%s leaves %d positions of %s to the next run: %s may still get earlier records, and is not idle",
                self._source,
                unread,
                first_names(waiting),
                planned.held_by,
            )

    def diverged(self, divergences: Mapping[SplitId, Divergence]) -> None:
        """Log that splits hold other records than those that were read, and that this loss is accepted."""
        self._diverged |= divergences.keys()
        for reason in sorted({divergence.reason for divergence in divergences.values()}):
            splits = [s for s, divergence in divergences.items() if divergence.reason == reason]
            _LOG.warning(
                "%s goes on from position %d with %s: %s (failOnDataLoss is false)",
                self._source,
                min(divergences[s].position for s in splits),
                first_names(splits),
                reason,
            )

    def unavailable(self, reasons: Mapping[SplitId, str]) -> None:
        """Log which splits are unavailable now.  Called before each plan, even if there are none."""
        if new := self._news("unavailable", reasons):
            _LOG.warning(
                "%s cannot look at %s, and the others wait for them at the bound: %s",
                self._source,
                first_names(new),
                reasons[min(new)],
            )

    def _log(self, removed: Collection[SplitId], late: Collection[SplitId], in_danger: Mapping[SplitId, float]) -> None:
        if new := self._news("removed", removed):
            _LOG.warning("%s no longer finds splits, read no further: %s", self._source, first_names(new))
        if new := self._news("late", late):
            _LOG.warning("%s reads splits behind the watermark (lateSplits): %s", self._source, first_names(new))
        if new := self._news("in danger", in_danger):
            soonest = min(new, key=lambda split: in_danger[split])
            _LOG.warning(
                "%s will lose unread records of %s in about %d minutes to retention",
                self._source,
                soonest,
                in_danger[soonest] // 60,
            )

    def _news(self, kind: str, splits: Collection[SplitId]) -> set[SplitId]:
        """Return the splits that were not among those of the last plan."""
        before, self._warned[kind] = self._warned.get(kind, set()), set(splits)
        return self._warned[kind] - before


def _late_rows(planned: Plan, cost: CostOf) -> int:
    """Return how many rows of the batch are behind the watermark."""
    return sum(
        cost({s: replace(planned.ranges[s], end=planned.ranges[s].start + said.late_rows)}).rows
        for s, said in planned.splits.items()
        if said.late_rows and s in planned.ranges
    )


def _remaining(left: Mapping[SplitId, tuple[int, int]], cost: CostOf) -> tuple[dict[SplitId, int], Cost]:
    """Return the rows of each split from a position to an end, and the cost of all."""
    if cost is split_rows:  # there may be 10,000 splits, so this saves an object for each
        rows = {s: end - at for s, (at, end) in left.items()}
        return rows, Cost(sum(rows.values()))
    ranges = {s: SplitRange(s, at, end) for s, (at, end) in left.items()}
    return {s: cost({s: split_range}).rows for s, split_range in ranges.items()}, cost(ranges)


def _spread(next_times_ms: Iterable[int | None]) -> list[int] | None:
    """Return the next event times of the slowest split, the median and the fastest; None: none is known."""
    times = sorted(at_ms for at_ms in next_times_ms if at_ms is not None)
    return [times[0], times[(len(times) - 1) // 2], times[-1]] if times else None


def _objects(outstanding: Cost) -> Json:
    if not outstanding.files and not outstanding.bytes:
        return {}
    return {"numFilesOutstanding": outstanding.files, "numBytesOutstanding": outstanding.bytes}


def first_names(names: Collection[str], most: int = 5) -> str:
    """Return the first names in their order, and how many more there are."""
    shown = ", ".join(sorted(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
