"""A world to plan in, and an oracle that judges plans by looking at every single record.

The model shares no code with the planner: a log knows its whole future, and each rule is checked
by brute force over records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise, product, takewhile

from tests.alignment.logs import Entry, KafkaLike, Log, PeekOnly, disorder
from tests.alignment.spark_watermark import LAGS, SparkWatermark
from tidegate.alignment.budget import UNLIMITED
from tidegate.alignment.group import GroupBound
from tidegate.alignment.horizon import Horizon
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.plan import Limits, Plan, Progress
from tidegate.alignment.planner import plan
from tidegate.alignment.splits import Extent
from tidegate.alignment.standing import find_standing
from tidegate.alignment.states import STATES, SplitState


class World:
    """Runs plans against logs and judges each by brute force.

    sighted: the index is not blind, so cuts must be exact.
    """

    def __init__(
        self,
        logs: Mapping[str, Log],
        limits: Limits,
        *,
        source: type[PeekOnly] = KafkaLike,
        sighted: bool = True,
        starts: Mapping[str, int] | None = None,
    ) -> None:
        self.logs = dict(logs)
        self.limits = limits
        self.sighted = sighted
        self.source = source(self.logs)
        self.index = TimeIndex(self.source)
        self.starts = {s: (starts or {}).get(s, log.begin) for s, log in self.logs.items()}
        self.progress = Progress(dict(self.starts))
        self.delivered: dict[str, list[Entry]] = {s: [] for s in self.logs}
        self.lost: dict[str, set[int]] = {s: set() for s in self.logs}
        self.states: dict[str, SplitState] = {}
        self.quiet: set[str] = set()
        self.away: set[str] = set()
        self.group_low_ms: int | None = None
        self.gone: dict[str, Log] = {}
        self.added: set[str] = set()
        self.late: set[str] = set()
        self.plans: list[Plan] = []
        self.spark = SparkWatermark()
        self.always_unread, self.always_holding = set(self.logs), set(self.logs)
        self.greatest_drift_ms = 0
        self.was_probed = False

    # What may happen between two plans.

    def restart(self) -> None:
        self.index = TimeIndex(self.source)

    def discover(self, split: str, log: Log) -> None:
        self.logs[split] = log
        self.source.logs = self.logs
        self.starts[split] = log.begin
        self.delivered[split], self.lost[split] = [], set()
        self.added.add(split)
        self.progress = replace(self.progress, positions={**self.progress.positions, split: log.begin})

    def trim(self, split: str, begin: int) -> None:
        log = self.logs[split]
        begin = min(begin, log.end)
        self.lost[split] |= {e.position for e in log.records(self.progress.positions[split], begin)}
        log.begin = max(log.begin, begin)

    def remove(self, split: str) -> None:
        self.gone[split] = self.logs.pop(split)
        self.source.logs = self.logs

    # One plan, and the judgement on it.

    def extent(self, split: str) -> Extent:
        log, at = self.logs[split], self.progress.positions[split]
        if split in self.away:
            return Extent(at, at, settled=split in self.progress.idle, available=False)
        return Extent(log.begin, log.end, log.settled, log.complete)

    def plan(self) -> Plan:
        extents = {s: self.extent(s) for s in self.logs}
        self.late = self._late()
        planned = self._plan(extents, self.index)
        assert self._plan(extents, TimeIndex(self.source)) == planned, "a restart plans something else"
        self._judge(planned)
        self._judge_by_spark(planned)
        for split, r in planned.ranges.items():
            self.delivered[split] += self.logs[split].records(r.start, r.end)
        not_seen = {s for s, said in planned.splits.items() if said.state is SplitState.REMOVED} | self.away
        self.states = {s: said.state for s, said in planned.splits.items() if s not in not_seen}
        self.progress = planned.progress
        self.added = set()
        if self.sighted and self.group_low_ms is not None and self._bounds_by_drift:
            self._judge_told(planned)
        self.plans.append(planned)
        return planned

    def _plan(self, extents: Mapping[str, Extent], index: TimeIndex) -> Plan:
        standing = find_standing(
            self.progress, extents, frozenset(self.quiet), index, self.limits, added=frozenset(self.added)
        )
        low_ms, drift_ms = self.group_low_ms, self.limits.max_drift_ms
        group_bound = None
        if low_ms is not None and drift_ms is not None and self.limits.aligned:
            group_bound = GroupBound(low_ms, low_ms + drift_ms, "another")
        return plan(standing, group_bound, index, self.limits)

    def _judge_low(self, planned: Plan) -> None:
        lows = [at_ms for at_ms in (min(self._lows(self.quiet), default=None), self.group_low_ms) if at_ms is not None]
        assert planned.low_ms == min(lows, default=None), f"low is {planned.low_ms}, and not {lows}"

    def _judge_told(self, planned: Plan) -> None:
        """Judge what the group learns: the low of the next plan, if nothing comes in between."""
        late = self._late()
        waiting = [w[0].time_ms for s in late if (w := self.unread(s))]
        is_behind = any(at_ms < self.limits.horizon_ms for at_ms in waiting)
        in_time_ms = None if self.progress.watermark_ms is None else self.progress.watermark_ms + 1
        low_ms = min(self._lows(self.progress.idle, late), default=in_time_ms if is_behind else None)
        told_ms = planned.next_low_ms
        # A split that is cut by position counts with its old head.
        is_cut = self.limits.budget != UNLIMITED
        assert told_ms == low_ms or is_cut, f"the group is told {told_ms}, and the next low is {low_ms}"

    def drain(self) -> int:
        """Plan until nothing changes; return the number of plans that changed something."""
        most = 10 + 3 * sum(max(0, log.last - log.begin) for log in self.logs.values())
        for count in range(most):
            before = self.progress
            if self.plan().progress is before:
                return count
        raise AssertionError(f"no end after {most} plans: {self.progress}")

    def read(self, split: str) -> list[int]:
        return [e.time_ms for e in self.delivered[split]]

    def end_of(self, split: str) -> int:
        stop, end = self.limits.stops.get(split), self.extent(split).end
        return end if stop is None else min(stop, end)

    def unread(self, split: str, *, at: Progress | None = None) -> list[Entry]:
        """Return the unread records that may be read now."""
        return self.logs[split].records((at or self.progress).positions[split], self.end_of(split))

    def _late(self) -> set[str]:
        """Return the splits with unread records that came, or woke, behind the watermark and are still behind it."""
        watermark_ms = self.progress.watermark_ms
        behind = {
            s for s in self.logs if watermark_ms is not None and (w := self.unread(s)) and w[0].time_ms <= watermark_ms
        }
        fresh = {s for s in behind if self.progress.positions[s] <= self.extent(s).begin}
        return behind & (self.progress.late | self.added | self.progress.idle | self.progress.removed | fresh)

    def _finished(self, split: str) -> bool:
        extent, stop, end = self.extent(split), self.limits.stops.get(split), self.end_of(split)
        position = max(self.progress.positions[split], extent.begin)
        return position >= end and (end == stop or extent.complete)

    def _is_quiet(self, split: str, quiet: Collection[str]) -> bool:
        is_settled = self.extent(split).settled
        return split in quiet and is_settled and self.progress.positions[split] >= self.end_of(split)

    def bound(self) -> int | None:
        """Return the time that no record of the next batch may reach; None: there is none."""
        if not self.limits.aligned:
            return None
        bounds = [at_ms for at_ms in (self._bound_by_drift(), self.limits.held_from_ms) if at_ms is not None]
        return min(bounds, default=None)

    def _bound_by_drift(self) -> int | None:
        drift_ms = self.limits.max_drift_ms
        if drift_ms is None:
            return None
        waits = self.limits.late_splits == "catch-up"
        watermark_ms = -(10**18) if self.progress.watermark_ms is None else self.progress.watermark_ms
        low_ms = min(self._lows(self.quiet), default=watermark_ms + 1)
        bounds = [low_ms + drift_ms]
        if self.progress.bound_ms is not None and not (waits and self.late):
            bounds.append(self.progress.bound_ms)
        own_ms = max(bounds)
        return own_ms if self.group_low_ms is None else min(own_ms, self.group_low_ms + drift_ms)

    @property
    def _bounds_by_drift(self) -> bool:
        return self.limits.aligned and self.limits.max_drift_ms is not None

    def _lows(self, quiet: Collection[str], late: Collection[str] | None = None) -> list[int]:
        """Return the times at which splits hold the bound."""
        late = self.late if late is None else late
        held = [self._held_at(split, quiet, late) for split in self.logs]
        return [at_ms for at_ms in held if at_ms is not None]

    def _held_at(self, split: str, quiet: Collection[str], late: Collection[str]) -> int | None:
        watermark_ms = -(10**18) if self.progress.watermark_ms is None else self.progress.watermark_ms
        if waiting := self.unread(split):
            head_ms = waiting[0].time_ms
            if head_ms >= self.limits.horizon_ms or (split in late and self.limits.late_splits == "admit"):
                return None
            return head_ms if split in late else max(head_ms, watermark_ms + 1)
        if self._is_quiet(split, quiet) or self._finished(split):
            return None
        if split in self.away:
            bound_ms = self.progress.bound_ms
            if self.progress.watermark_ms is None:
                return None if bound_ms is None else bound_ms - self.limits.max_drift_ms
            return watermark_ms + 1
        known = self.source.latest({split: self.end_of(split)}, Horizon())[split]
        return None if known is None else max(known, watermark_ms + 1)

    def _judge(self, planned: Plan) -> None:
        before, after = self.progress, planned.progress
        batch = {s: self.logs[s].records(r.start, r.end) for s, r in planned.ranges.items()}
        bound_ms = self.bound()
        self._judge_positions(planned)
        self._judge_size(planned, batch, bound_ms)
        if bound_ms is not None:
            self._judge_bound(planned, batch, bound_ms)
            if self.sighted:
                self._judge_exact_bound(planned, batch, bound_ms)
                if self._bounds_by_drift:
                    self._judge_low(planned)
        self._judge_watermark(planned)
        self._judge_late(planned, batch)
        self._judge_states(planned, bound_ms)
        if after == before:
            assert after is before, "nothing changed, but there is a new offset"
        same = replace(after, bound_ms=before.bound_ms) == before
        assert not same or after is before, "only the bound changed, but there is a new offset"

    def _judge_positions(self, planned: Plan) -> None:
        for split in self.logs:
            old, new = max(self.progress.positions[split], self.extent(split).begin), planned.progress.positions[split]
            r = planned.ranges.get(split)
            if r is None:
                assert new == old
            else:
                assert (r.split_id, r.start, r.end) == (split, old, new)
                assert old < new <= self.end_of(split)
        assert planned.progress.positions.keys() == self.logs.keys() | self.gone.keys()
        assert planned.progress.removed == self.gone.keys()
        assert all(planned.progress.positions[s] == self.progress.positions[s] for s in self.gone)

    def _judge_size(self, planned: Plan, batch: Mapping[str, list[Entry]], bound_ms: int | None) -> None:
        due = [
            split for split in self.logs if (w := self.unread(split)) and (bound_ms is None or w[0].time_ms < bound_ms)
        ]
        records = sum(map(len, batch.values()))
        positions = sum(r.end - r.start for r in planned.ranges.values())
        if due:
            # A budget may be spent on positions before a record, which may hold rows that planning leaves out.
            assert records or (positions and self.limits.budget != UNLIMITED), f"no progress although {due} are unread"
        if positions > 1:
            assert self.limits.budget.used(self.limits.cost(planned.ranges)) <= 1, "over budget"

    def _judge_bound(self, planned: Plan, batch: Mapping[str, list[Entry]], bound_ms: int) -> None:
        """Judge that the bound is kept up to the disorder of the readable records, however blind the source is."""
        for split, entries in batch.items():
            assert not [e for e in entries if e.time_ms >= self.limits.horizon_ms], f"{split} is read into the future"
            allowed_ms = disorder([e.time_ms for e in self.unread(split)])
            for stored_ms in {bound_ms, planned.progress.bound_ms} - {None}:
                assert all(e.time_ms < stored_ms + allowed_ms for e in entries), f"{split} is read too far"

    def _judge_exact_bound(self, planned: Plan, batch: Mapping[str, list[Entry]], bound_ms: int) -> None:
        # In disorder, a lookup may find a record that was read already.  Such a split is probed, and may overshoot.
        exact = {split for split, said in planned.splits.items() if said.exact} & self.logs.keys()
        times = [e.time_ms for split in exact for e in batch.get(split, [])]
        assert all(t < bound_ms for t in times), "a record at or past the bound was read"
        assert planned.progress.bound_ms is None or all(t < planned.progress.bound_ms for t in times)
        if self.limits.budget == UNLIMITED:
            for split in exact:
                due = list(takewhile(lambda entry: entry.time_ms < bound_ms, self.unread(split)))
                assert due == batch.get(split, []), "without a budget all before the bound is read"

    def _judge_watermark(self, planned: Plan) -> None:
        before_ms, after_ms = self.progress.watermark_ms, planned.progress.watermark_ms
        disorder_ms = self.limits.out_of_orderness_ms
        if before_ms is not None:
            assert after_ms is not None
            assert after_ms >= before_ms, "the watermark went back"
        if after_ms is None or after_ms == before_ms or disorder_ms is None:
            return
        if (horizon_ms := self.limits.held_from_ms) is not None:
            logs = [*self.logs.items(), *self.gone.items()]
            read = [e.time_ms for s, log in logs for e in log.records(0, planned.progress.positions[s])]
            due = [e.time_ms for s, log in self.logs.items() for e in log.records(0, self.end_of(s))]
            due = [at_ms for at_ms in due if at_ms < horizon_ms]
            assert after_ms < max(read + due), "a record that is held moves it"
        leaving = {SplitState.IDLE, SplitState.FINISHED, SplitState.REMOVED}
        for split, log in self.logs.items():
            end = self.end_of(split)
            if planned.splits[split].state in leaving or not (log.records(0, end) or not self.extent(split).settled):
                continue
            if split in self.late and self.limits.late_splits == "admit":
                continue
            stop = self.limits.stops.get(split)
            for entry in log.records(planned.progress.positions[split], stop):
                past = [e.time_ms for e in log.records(0, entry.position)]
                if not past or entry.time_ms >= max(past) - disorder_ms:
                    assert entry.time_ms > after_ms, f"{entry} of {split} was in order and would now be late"

    def _judge_by_spark(self, planned: Plan) -> None:
        """Judge that Spark drops no row if its delay is the disorder, and at the live edge also the drift.

        The promise is to splits that existed from the beginning.  A split that always had unread records has it
        whatever the other splits did.  Any other split has it as long as it held the bound.  Probing is right up to
        the disorder, so the disorder counts twice.
        """
        self.always_unread &= {s for s in self.logs if self.limits.aligned} - self.late
        self.always_holding &= {s for s in self.logs if self._holds(s, self.progress)} - self.late
        self.greatest_drift_ms = max(self.greatest_drift_ms, self.limits.max_drift_ms or 0)
        self.was_probed |= any(not said.exact for said in planned.splits.values())
        # Spark has seen records that were deleted after they were read.
        disorder_ms = max(
            disorder([e.time_ms for e in log.entries if e.seen]) for log in [*self.logs.values(), *self.gone.values()]
        )
        back_fill_ms = disorder_ms * (1 + self.was_probed) + 1
        batch = {s: [e.time_ms for e in self.logs[s].records(r.start, r.end)] for s, r in planned.ranges.items()}
        for split, times in batch.items():
            delays_ms = [back_fill_ms] if split in self.always_unread else []
            delays_ms += [back_fill_ms + self.greatest_drift_ms] if split in self.always_holding else []
            for delay_ms, lag in product(delays_ms, LAGS):
                dropped = self.spark.dropped(times, delay_ms, lag)
                assert not dropped, f"with a delay of {delay_ms} ms Spark drops {dropped} of {split}"
        self.spark.deliver(batch)
        self.always_unread &= {s for s in self.logs if self.unread(s, at=planned.progress)}
        self.always_holding &= {s for s in self.logs if self._holds(s, planned.progress)}

    def _holds(self, split: str, at: Progress) -> bool:
        if self.unread(split, at=at):
            return self.limits.aligned
        still = self.limits.aligned and self.limits.max_drift_ms is not None
        delivered = self.source.latest({split: self.end_of(split)}, Horizon())[split] is not None
        return still and delivered and not (self._is_quiet(split, self.quiet) or self._finished(split))

    def _judge_late(self, planned: Plan, batch: Mapping[str, list[Entry]]) -> None:
        watermark_ms = self.progress.watermark_ms
        for split, said in planned.splits.items():
            entries = [] if watermark_ms is None else batch.get(split, [])
            first = list(takewhile(lambda entry: entry.time_ms <= watermark_ms, entries))  # type: ignore[operator]
            if said.exact and self.sighted:
                assert bool(said.late_rows) == bool(first), (
                    f"{split}: {said.late_rows} rows are called late, not {first}"
                )
            assert said.late_rows >= bool(first)
        still = {s for s in planned.progress.late if (w := self.unread(s, at=planned.progress)) and w[0].time_ms}
        assert still <= self.late
        if planned.progress.watermark_ms is not None:
            for split in self.late:
                left = self.unread(split, at=planned.progress)
                if left and left[0].time_ms <= planned.progress.watermark_ms:
                    assert split in planned.progress.late, "a late split was forgotten before it caught up"

    def _judge_states(self, planned: Plan, bound_ms: int | None) -> None:
        assert planned.splits.keys() == self.logs.keys() | self.progress.positions.keys()
        for split, said in planned.splits.items():
            was = None if split in self.away else self.states.get(split)
            assert was is None or said.state in STATES[was].next, f"{split}: {was} -> {said.state}"
            assert said.state is self._state(split, planned, bound_ms)
        in_order = all(a.time_ms <= b.time_ms for log in self.logs.values() for a, b in pairwise(log.entries))
        if self.sighted and in_order:
            assert all(said.exact for said in planned.splits.values())

    def _state(self, split: str, planned: Plan, bound_ms: int | None) -> SplitState:
        if split not in self.logs:
            return SplitState.REMOVED
        waiting = self.unread(split)
        if split in planned.ranges:
            return SplitState.READING
        if waiting:
            held = bound_ms is not None and waiting[0].time_ms >= bound_ms
            return SplitState.PAUSED if held else SplitState.UNREAD
        if self._finished(split):
            return SplitState.FINISHED
        if self._is_quiet(split, self.quiet):
            return SplitState.IDLE
        return SplitState.UNREAD if split in self.away else SplitState.CAUGHT_UP


def states(world: World) -> dict[str, SplitState]:
    return {s: said.state for s, said in world.plans[-1].splits.items()}
