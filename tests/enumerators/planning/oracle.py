"""A world of logs for whole queries, and an oracle that judges a coordinator over it.

The oracle shares no code with the planner.  It knows every record that there ever was, keeps plain
lists of delivered records, and reads offsets as plain JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise

from tests.alignment.model import disorder
from tests.support.logs import Clock, Logs
from tidegate.alignment.horizon import Horizon
from tidegate.errors import PositionGoneError

NEVER = -(10**18)


def canonical(offset: dict) -> str:
    return json.dumps(offset, sort_keys=True)


@dataclass(frozen=True)
class Terms:
    """The settings of one query for all its life; times are in ms, except for the timeout.

    disorder_ms: how far records are out of order, which is also the declared out-of-orderness.
    exact: the index is not blind and records are in order, so cuts must be exact.
    discovery_s: the time between two discoveries of splits.
    """

    drift_ms: int | None = None
    disorder_ms: int = 0
    watermarks: bool = True
    idle_s: float = 60.0
    late_splits: str = "admit"
    aligned: bool = True
    sighted: bool = True
    may_lose: bool = True
    min_rows: int = 0
    discovery_s: float = 30.0

    @property
    def exact(self) -> bool:
        return self.sighted and self.disorder_ms == 0


class World:
    """All present and past records, and when they came."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.times: dict[str, list[int]] = {}
        self.gone: dict[str, list[int]] = {}
        self.begins: dict[str, int] = {}
        self.stops: dict[str, int | None] = {}
        self.unsettled: set[str] = set()
        self.grown_at: dict[str, float] = {}
        self.seen_grown_at: dict[str, float] = {}
        self.coming: list[tuple[str, list[int]]] = []
        self.deleting: list[tuple[str, int]] = []
        self.lost: dict[str, set[int]] = {}
        self.committed: dict[str, dict[int, int]] = {}

    def add_split(self, split: str, stop: int | None = None) -> None:
        self.times[split], self.begins[split], self.stops[split] = [], 0, stop
        self.grown_at[split], self.lost[split], self.committed[split] = self.clock.now, set(), {}

    def log(self, split: str) -> list[int]:
        return self.times[split] if split in self.times else self.gone[split]

    def append(self, split: str, times: list[int]) -> None:
        self.log(split).extend(times)
        self.grown_at[split] = self.clock.now

    def trim(self, split: str, begin: int) -> None:
        begin = min(begin, len(self.log(split)))
        self.lost[split].update(p for p in range(self.begins[split], begin) if p not in self.committed[split])
        self.begins[split] = max(self.begins[split], begin)

    def happen_meanwhile(self) -> None:
        """Add the records that come after a plan has asked for the extents, and before it asks for more."""
        coming, self.coming = self.coming, []
        deleting, self.deleting = self.deleting, []
        for split, times in coming:
            if split in self.times:
                self.append(split, times)
        for split, begin in deleting:
            if split in self.times:
                self.trim(split, begin)


class Source(Logs):
    """The enumerator of one run.  It remembers its answers, because a plan could know no more.

    frozen: answer with these extents, and let nothing come meanwhile.
    """

    def __init__(self, world: World, frozen: dict | None = None) -> None:
        super().__init__()
        self.world, self.frozen = world, frozen
        self.times, self.begins, self.ends = world.times, world.begins, world.stops
        self.unsettled = world.unsettled
        self.said = {}
        self.first_said = None
        self.state = {"kept": {"b": 1, "a": [2]}}

    def discover(self):
        return super().discover() if self.frozen is None else list(self.frozen)

    def extents(self, splits):
        self.said = super().extents(splits) if self.frozen is None else {s: self.frozen[s] for s in splits}
        if self.first_said is None:
            self.first_said = self.said
        if self.frozen is None:
            self.world.seen_grown_at = dict(self.world.grown_at)
            self.world.happen_meanwhile()
        return self.said

    def peek(self, positions, horizon):
        if gone := [s for s, p in positions.items() if p < self.begins[s]]:
            raise PositionGoneError(f"{gone} are gone")
        return super().peek(positions, horizon)

    def latest(self, ends, horizon):
        return {s: max(self.times[s][self.begins[s] : end], default=None) for s, end in ends.items()}

    def lookup(self, event_time_ms, splits):
        # As in Kafka: the first record of all that are left, even of those that were read or came after the extents.
        heads = {}
        for split in splits:
            begin = self.begins[split]
            later = [p for p in range(begin, len(self.times[split])) if self.times[split][p] >= event_time_ms]
            heads |= super().peek({split: later[0] if later else len(self.times[split])}, Horizon())
        return heads


class Peeks(Source):
    """A source without a time index."""

    lookup = None


@dataclass
class View:
    """One split as one plan could see it.

    unread: the event times that the plan may read.
    beyond: the event times that a bounded run leaves to the next one, if it is at its target.
    """

    begin: int
    position: int
    last: int
    settled: bool
    finished: bool
    unread: list[int]
    beyond: list[int]
    known: list[int]
    in_log: int


@dataclass
class Judge:
    """Judges offsets and batches.

    targets: the targets of the bounded run that goes on, if there is one.
    """

    world: World
    terms: Terms
    targets: dict[str, int] | None = None
    read_at: dict[str, float] = field(default_factory=dict)
    late_after: dict[str, set[str]] = field(default_factory=dict)
    watermark_ms: int = NEVER

    def views(self, end: dict, start: dict, extents: dict) -> dict[str, View]:
        views = {}
        for split, extent in extents.items():
            stood = start.get("positions", {}).get(split, end.get("starts", {}).get(split))
            if stood is None:
                continue
            stop = self.world.stops[split]
            last = extent.end if stop is None else min(extent.end, stop)
            first, log, readable = max(stood, extent.begin), self.world.times[split], last
            if self.targets is not None:
                last = min(last, max(self.targets.get(split, extent.begin), first))
            views[split] = View(
                extent.begin,
                first,
                last,
                extent.settled,
                first >= last == stop,
                log[first:last],
                log[first:readable] if first >= last else [],
                log[extent.begin : last],
                extent.end,
            )
        return views

    def judge_plan(self, start: dict, end: dict, extents: dict, rows: int | None, report: dict) -> None:
        """Judge an offset that was just planned from ``start``."""
        views = self.views(end, start, extents)
        batch = {s: self.world.times[s][v.position : end["positions"][s]] for s, v in views.items()}
        count = sum(map(len, batch.values()))
        self._judge_positions(start, end, views)
        self._judge_idle(start, end, views)
        self._judge_watermark(start, end, views)
        if count:
            assert rows is None or count <= max(rows, 1), "over budget"
        # Records that are deleted during the plan may be planned; nobody will read them.
        if all(extent.begin == self.world.begins[s] for s, extent in extents.items()):
            self._judge_size(start, end, views, batch, rows)
            self._judge_late(start, end, views, batch, report)
            self._judge_progress_of_watermark(end, views)
        self._judge_end(end, views)
        for split, times in batch.items():
            if times:
                self.read_at[split] = self.world.clock.now

    def judge_repeat(self, start: dict, extents: dict) -> None:
        """Judge that a plan returned ``start`` itself: nothing was to be read."""
        views = self.views(start, start, extents)
        if self.targets is not None or not self.terms.min_rows:
            bound_ms = self.bound(start, start, views)
            waiting = {s: v.unread[0] for s, v in views.items() if v.unread}
            assert all(bound_ms is not None and t >= bound_ms for t in waiting.values()), f"nothing holds {waiting}"
            self._judge_idle(start, start, views)
            if all(extent.begin == self.world.begins[s] for s, extent in extents.items()):
                self._judge_progress_of_watermark(start, views)

    def bound(self, start: dict, end: dict, views: dict[str, View]) -> int | None:
        """Return the time that no record of the batch may reach; None: there is none."""
        drift_ms = self.terms.drift_ms
        if drift_ms is None or not self.terms.aligned:
            return None
        watermark_ms = start.get("watermark", NEVER)
        # In a bounded run, the next record of a split counts, though a later run reads it.
        heads = {s: (v.unread or v.beyond)[0] for s, v in views.items() if v.unread or v.beyond}
        late = {s for s, t in heads.items() if t <= watermark_ms} - self.unnoticed(start, end, views)
        waits = self.terms.late_splits == "catch-up"
        holds = [t for s, t in heads.items() if t > watermark_ms or (waits and s in late)]
        holds += [
            max(*v.known, watermark_ms + 1)
            for s, v in views.items()
            if s not in heads and not v.finished and s not in end.get("idle", []) and v.known
        ]
        low_ms = min(holds, default=watermark_ms + 1)
        if waits and late:
            return low_ms + drift_ms
        return max(low_ms + drift_ms, start.get("bound", NEVER))

    def unnoticed(self, start: dict, end: dict, views: dict[str, View]) -> set[str]:
        """Return the splits that may be behind the watermark only by disorder, and so are not late."""
        fresh = [s for s, v in views.items() if v.position <= v.begin]
        said = [*start.get("late", []), *start.get("idle", []), *start.get("removed", []), *end.get("starts", {})]
        return views.keys() - {*said, *fresh}

    def _judge_positions(self, start: dict, end: dict, views: dict[str, View]) -> None:
        before, after = start.get("positions", {}), end["positions"]
        assert before.keys() <= after.keys(), "a split was forgotten"
        assert views.keys() | before.keys() == after.keys()
        for split, position in after.items():
            if split in views:
                assert views[split].position <= position <= max(views[split].last, views[split].position)
            else:
                assert position == before[split], "a split that is gone was read"
        assert end.get("starts", {}).keys() == after.keys() - before.keys()

    def _judge_idle(self, start: dict, end: dict, views: dict[str, View]) -> None:
        now = self.world.clock.now
        for split in end.get("idle", []):
            assert split in views, "a split that is gone is called idle"
            v = views[split]
            assert v.settled, "an open split is idle"
            assert v.position >= v.in_log, "a split with unread records is idle"
            since = max(self.world.seen_grown_at[split], self.read_at.get(split, 0.0))
            assert split in start.get("idle", []) or now - since >= self.terms.idle_s, "idle too early"

    def _judge_watermark(self, start: dict, end: dict, views: dict[str, View]) -> None:
        before_ms, after_ms = start.get("watermark"), end.get("watermark")
        if not self.terms.watermarks:
            assert after_ms is None
            return
        assert before_ms is None or (after_ms is not None and after_ms >= before_ms), "the watermark went back"
        if after_ms is None or after_ms == before_ms:
            return
        not_aligned = self._not_aligned(start, end, views)
        for split, v in views.items():
            if split in end.get("idle", []) or split in not_aligned:
                continue
            stop, position = self.world.stops[split], max(end["positions"][split], v.begin)
            if stop is not None and position >= stop:
                continue
            assert v.known or v.settled, "the first records of an open split may be older"
            # A split whose records were all deleted says nothing either, even if they were deleted just now.
            if not v.beyond and (not v.known or self.world.begins[split] >= v.last):
                continue
            left = self.world.times[split][position:stop]
            assert all(t > after_ms for t in left), f"the watermark passes what {split} is still to deliver"
            read = self.world.times[split][v.begin : position]
            if read and position >= v.last and not v.beyond:
                most_ms = max(read) - self.terms.disorder_ms - 1
                assert after_ms <= most_ms, f"the watermark passes what may still come in {split}"

    def _not_aligned(self, start: dict, end: dict, views: dict[str, View]) -> set[str]:
        """Return the admitted late splits that do not hold the watermark yet (Flink: StatusWatermarkValve)."""
        before_ms = start.get("watermark", NEVER)
        if self.terms.late_splits != "admit":
            return set()
        late = {s for s, v in views.items() if (left := v.unread or v.beyond) and left[0] <= before_ms}
        behind_ms = before_ms + self.terms.disorder_ms + 1
        late -= self.unnoticed(start, end, views)
        return {s for s in late if self._reached(views[s], end["positions"][s] - views[s].position) < behind_ms}

    def _judge_progress_of_watermark(self, end: dict, views: dict[str, View]) -> None:
        """Judge that no split without a say holds back the watermark."""
        if not self.terms.watermarks or any(v.unread for v in views.values()):
            return
        if any(not v.settled and not v.known for v in views.values()):
            return
        reached = {s: self._reached(v, 0) for s, v in views.items() if v.known or v.beyond}
        released = {
            s for s, v in views.items() if s in end.get("idle", []) or end["positions"][s] == self.world.stops[s]
        }
        holding = [t for s, t in reached.items() if s not in released]
        if reached:
            least_ms = min(holding) if holding else max(reached.values())
            assert end.get("watermark", NEVER) >= least_ms - self.terms.disorder_ms - 1, "the watermark is pinned"

    def _judge_size(self, start: dict, end: dict, views: dict, batch: dict, rows: int | None) -> None:
        bound_ms = self.bound(start, end, views)
        due = {s: v.unread[0] for s, v in views.items() if v.unread and (bound_ms is None or v.unread[0] < bound_ms)}
        read = [t for times in batch.values() for t in times]
        assert read or not due, f"nothing holds {due}"
        if read and bound_ms is not None:
            assert "bound" in end, "aligned by a drift and read without a bound"
        if not self.terms.aligned:
            return
        # The disorder of the unread records: a cut by probing may pass the bound by so much.
        allowed_ms = {s: disorder(v.unread) for s, v in views.items()}
        for limit_ms in {bound_ms, end.get("bound")} - {None}:
            assert all(t < limit_ms + allowed_ms[s] for s, times in batch.items() for t in times), "read too far"
        if not self.terms.exact:
            return
        assert all(t < end["bound"] for t in read if "bound" in end), "past the bound that is stored"
        if bound_ms is not None:
            assert all(t < bound_ms for t in read), "further than the drift past the slowest head"
        if rows is None:
            for split, v in views.items():
                wanted = [t for t in v.unread if bound_ms is None or t < bound_ms]
                assert batch[split] == wanted, "all before the bound is read where no budget forbids it"

    def _judge_end(self, end: dict, views: dict[str, View]) -> None:
        past = {s: end["positions"][s] - stop for s in views if (stop := self.world.stops[s]) is not None}
        ended = bool(views) and past.keys() == views.keys() and min(past.values()) >= 0
        assert end.get("ended", False) == ended, "plus infinity is not what is at all the ends"

    def _judge_late(self, start: dict, end: dict, views: dict[str, View], batch: dict, report: dict) -> None:
        watermark_ms, after_ms = start.get("watermark", NEVER), end.get("watermark", NEVER)
        late = {s: [t for t in times if t <= watermark_ms] for s, times in batch.items()}
        rows = sum(map(len, late.values()))
        if self.terms.exact:
            assert report["lateRows"] == rows, "late rows are miscounted"
        elif self.terms.disorder_ms == 0:
            assert report["lateRows"] <= rows
            assert report["lateRows"] or not rows, "late in silence"
        due = {s for s, v in views.items() if v.unread and v.unread[0] <= watermark_ms} - self.unnoticed(
            start, end, views
        )
        named = set(report["lateSplits"])
        assert due <= named, f"{due - named} are late and nobody is told"
        known = self.late_after.get(canonical(start), set()) | due
        late_now = {
            s
            for s in known & views.keys()
            if (views[s].known or views[s].beyond) and self._reached(views[s], len(batch[s])) <= after_ms
        }
        assert late_now <= set(end.get("late", [])), "a late split was forgotten before it caught up"
        self.late_after[canonical(end)] = late_now

    @staticmethod
    def _reached(view: View, rows: int) -> int:
        left = view.unread[rows:] or view.beyond
        return left[0] if left else max(view.known)

    def judge_batch(self, start: dict, end: dict, tasks: list) -> dict[str, dict[int, int]]:
        """Judge the tasks of a batch only by its two offsets, and return the records that they deliver."""
        pieces: dict[str, list[tuple[int, int]]] = {}
        for task in tasks:
            assert task.ranges, "a task of nothing"
            for r in task.ranges:
                pieces.setdefault(r.split_id, []).append((r.start, r.end))
        before = {**end.get("starts", {}), **start.get("positions", {})}
        due = {s: (before[s], p) for s, p in end["positions"].items() if before[s] < p}
        assert pieces.keys() == due.keys(), "a batch reads other splits than its offsets say"
        for split, stretches in pieces.items():
            edges = [due[split][0], *(end for _, end in stretches)]
            assert stretches == list(pairwise(edges)), "not from end to end in order"
            assert edges[-1] == due[split][1]
        return {
            s: {p: self.world.log(s)[p] for p in range(max(first, self.world.begins[s]), last)}
            for s, (first, last) in due.items()
        }

    def commit(self, read: dict[str, dict[int, int]], end: dict) -> None:
        for split, records in read.items():
            committed = self.world.committed[split]
            assert not committed.keys() & records.keys(), "delivered twice"
            assert not committed or not records or min(records) > max(committed), "out of order"
            committed.update(records)
            self.world.lost[split] -= records.keys()
        watermark_ms = end.get("watermark", NEVER)
        assert watermark_ms >= self.watermark_ms, "the watermark went back"
        self.watermark_ms = watermark_ms

    def judge_all(self, last: dict) -> None:
        """Judge that everything was delivered after enough time."""
        for split, times in self.world.times.items():
            due = set(range(len(times))[: self.world.stops[split]]) - self.world.lost[split]
            committed = self.world.committed[split]
            assert committed.keys() - self.world.lost[split] == due, f"{split} was not delivered exactly once"
            assert all(times[p] == t for p, t in committed.items())
        final_ms = [
            max(known)
            for s, times in self.world.times.items()
            if (known := times[self.world.begins[s] : self.world.stops[s]])
        ]
        if self.terms.watermarks and final_ms:
            assert last.get("watermark", NEVER) >= max(final_ms) - self.terms.disorder_ms - 1, "the watermark stays low"
