"""Reports the progress of the source after each plan; Spark shows it in the progress of the query."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.alignment.budget import Cost, CostOf, split_rows
from tidegate.alignment.plan import Plan, SplitState
from tidegate.alignment.splits import Extents, Positions, SplitId, SplitRange
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.contract import Completeness, Json, SplitEnumerator
from tidegate.enumerators.planning.observing import Observer
from tidegate.enumerators.planning.run_log import RunLog
from tidegate.enumerators.planning.source_progress import SourceProgress

_DETAILED_SPLITS = 100
_NAMED_SPLITS = 10
_DELETED_SOON_S = 3600
_RECENT_S = 600.0  # how far the retention estimate looks back
_SPACING_S = 60.0
_LEAST_S = 1.0
_FIELDS = {name for field, of in SourceProgress.model_fields.items() for name in (field, of.alias)} - {"metrics"}
"""Names with a meaning in progress, also where they are left out as empty; connectors have metrics of their own."""


class ProgressReporter:
    """Reports the plans of one run; ``progress`` is the last report, None before the first."""

    def __init__(self, log: RunLog, clocks: Clocks) -> None:
        self._log, self._clocks = log, clocks
        self._retention = _RetentionEstimate()
        self._lookups = self._peeks = 0
        self._paused_since: dict[SplitId, int] = {}
        self._late_rows = 0
        self._diverged: set[SplitId] = set()
        self.progress: Json | None = None

    def report(
        self,
        planned: Plan,
        extents: Extents,
        opened: Observer,
        held_by: str | None,
    ) -> None:
        """Report a plan.  Called once per plan.

        extents: of all splits before it.
        held_by: the split or the member that sets the bound.
        """
        enumerator, index, cost = opened.enumerator, opened.index, opened.cost_of_rows
        ends, positions = planned.ends, planned.progress.positions
        now_ms = int(self._clocks.wall() * 1000)
        left = {s: (at, end) for s, end in ends.items() if (at := positions.get(s, end)) < end}
        remaining, outstanding = _remaining(left, cost)
        most_behind = _most_behind(planned, remaining, now_ms)
        late_rows = _late_rows(planned, cost)
        self._late_rows += late_rows
        late = {s for s, split in planned.splits.items() if split.late or _is_behind(s, planned)}
        seconds_left = self._seconds_left({s: at for s, (at, _) in left.items()}, extents)
        self._log.planned(_in_state(planned, SplitState.REMOVED), late, _soon(seconds_left))
        self._diverged |= set(opened.splits.diverged)
        progress = SourceProgress.of(
            watermark=planned.progress.watermark_ms,
            bound=planned.progress.bound_ms,
            low=planned.low_ms,
            held_by=held_by,
            group_bound=planned.group_bound_ms,
            splits=_by_state(planned),
            spread=_spread(split.next_ms for split in planned.splits.values()),
            planned_rows=cost(planned.ranges).rows,
            rows_remaining=sum(remaining.values()),
            num_files_outstanding=outstanding.files,
            num_bytes_outstanding=outstanding.bytes,
            event_time_lag=0 if most_behind is None else most_behind[2],
            oldest_event_time=planned.oldest_ms,
            current_fetch_event_time_lag=None if planned.oldest_ms is None else max(0, now_ms - planned.oldest_ms),
            most_behind=most_behind,
            late_rows=late_rows,
            late_rows_total=self._late_rows,
            late_splits=_first(late),
            paused=self._paused(planned, now_ms),
            lookups=index.lookups - self._lookups,
            peeks=index.peeks - self._peeks,
            inexact_splits=len([1 for split in planned.splits.values() if not split.exact]),
            overshoot=_overshoot(enumerator, planned),
            metrics=dict(sorted(enumerator.metrics().items())),
            time_to_deletion={s: left_s * 1000 for s, left_s in [*seconds_left.items()][:_NAMED_SPLITS]},
            unavailable_splits=_first(s for s, extent in extents.items() if not extent.available),
            diverged_splits=_first(self._diverged),
            bad_records_total=None if opened.bad_records is None else opened.bad_records.total,
            generated=None if opened.generated is None else opened.generated.progress(planned.generators),
            completeness=_shown(opened.completeness()),
            by_split=_details(planned, remaining),
        )
        self._lookups, self._peeks = index.lookups, index.peeks
        own = {name: of for name, of in enumerator.own_progress(positions, ends).items() if name not in _FIELDS}
        self.progress = {**own, **progress.to_json()}

    def _seconds_left(self, unread: Positions, extents: Extents) -> dict[SplitId, int]:
        """Return the whole seconds until unread records are deleted, the soonest first."""
        available = {s: extent for s, extent in extents.items() if extent.available}
        left = self._retention.seconds_left(self._clocks.monotonic(), unread, available)
        return {s: round(left_s) for s, left_s in sorted(left.items(), key=lambda item: item[1])}

    def _paused(self, planned: Plan, now_ms: int) -> dict[SplitId, int]:
        """Return since when splits are paused, the longest first."""
        paused = _in_state(planned, SplitState.PAUSED)
        self._paused_since = {s: self._paused_since.get(s, now_ms) for s in paused}
        return dict(sorted(self._paused_since.items(), key=lambda item: item[::-1])[:_NAMED_SPLITS])


class _RetentionEstimate:
    """Estimates when the begin of each split will pass its position, from how the begin moved recently.

    Alignment pauses splits, and their unread records may be deleted meanwhile.

    Recently means the last ten minutes: deletion may begin late in a run, and then continues in jumps.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Positions]] = deque()

    def seconds_left(self, now_s: float, unread: Positions, extents: Extents) -> Mapping[SplitId, float]:
        """Return the time until unread records are deleted, for splits with recently deleted records.

        unread: the positions of the splits that are to be read further.
        """
        looks = self._looks
        if not looks or now_s - looks[-1][0] >= _SPACING_S:
            looks.append((now_s, {s: extent.begin for s, extent in extents.items()}))
        while now_s - looks[0][0] > _RECENT_S:
            looks.popleft()
        first = looks[0][1]
        moved = [s for s, at in unread.items() if s in extents and first.get(s) != extents[s].begin <= at]
        left = {}
        for split in moved:
            begin = extents[split].begin
            since_s, begins = next((look for look in looks if split in look[1]), (now_s, first))
            if now_s - since_s >= _LEAST_S and begins[split] < begin:
                left[split] = (unread[split] - begin) * (now_s - since_s) / (begin - begins[split])
        return left


def _shown(complete: Completeness | None) -> Json | None:
    return None if complete is None else {"until": complete.until_ms, "held_from": complete.next_ms}


def _first(splits: Iterable[SplitId]) -> tuple[SplitId, ...]:
    return tuple(sorted(splits)[:_NAMED_SPLITS])


def _soon(seconds_left: Mapping[SplitId, int]) -> dict[SplitId, int]:
    return {s: left_s for s, left_s in seconds_left.items() if left_s < _DELETED_SOON_S}


def _in_state(planned: Plan, state: SplitState) -> list[SplitId]:
    return [s for s, split in planned.splits.items() if split.state is state]


def _by_state(planned: Plan) -> dict[str, int]:
    return dict(sorted(Counter(split.state.value for split in planned.splits.values()).items()))


def _most_behind(planned: Plan, remaining: Mapping[SplitId, int], now_ms: int) -> tuple[SplitId, int, int] | None:
    unread = {s: planned.splits[s].next_ms for s in remaining}
    at_ms, split = min(((at_ms, s) for s, at_ms in unread.items() if at_ms is not None), default=(0, None))
    return None if split is None else (split, remaining[split], max(0, now_ms - at_ms))


def _details(planned: Plan, remaining: Mapping[SplitId, int]) -> dict[SplitId, tuple[str, int | None, int]]:
    if len(planned.splits) > _DETAILED_SPLITS:
        return {}
    return {s: (split.state.value, split.next_ms, remaining.get(s, 0)) for s, split in sorted(planned.splits.items())}


def _is_behind(split: SplitId, planned: Plan) -> bool:
    """Return whether a split is late after a plan; one that is read to its end has nothing more to catch up with."""
    return split in planned.progress.late and planned.splits[split].state is not SplitState.FINISHED


def _late_rows(planned: Plan, cost: CostOf) -> int:
    """Return how many rows of the batch are behind the watermark."""
    return sum(
        cost({s: replace(planned.ranges[s], end=planned.ranges[s].start + split.late_rows)}).rows
        for s, split in planned.splits.items()
        if split.late_rows and s in planned.ranges
    )


def _remaining(left: Mapping[SplitId, tuple[int, int]], cost: CostOf) -> tuple[dict[SplitId, int], Cost]:
    """Return the rows of each split from a position to an end, and the cost of all."""
    if cost is split_rows:  # there may be 10,000 splits, so this saves an object for each
        rows = {s: end - at for s, (at, end) in left.items()}
        return rows, Cost(sum(rows.values()))
    ranges = {s: SplitRange(s, at, end) for s, (at, end) in left.items()}
    return {s: cost({s: split_range}).rows for s, split_range in ranges.items()}, cost(ranges)


def _spread(next_times_ms: Iterable[int | None]) -> tuple[int, int, int] | None:
    """Return the next event times of the slowest split, the median and the fastest."""
    times = sorted(at_ms for at_ms in next_times_ms if at_ms is not None)
    if not times:
        return None
    return times[0], times[(len(times) - 1) // 2], times[-1]


def _overshoot(enumerator: SplitEnumerator, planned: Plan) -> int:
    bound_ms = planned.progress.bound_ms
    return 0 if bound_ms is None else enumerator.overshoot_ms(planned.ranges, bound_ms)
