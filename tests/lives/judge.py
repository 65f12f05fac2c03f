"""The oracle: judges a query by every single record, and by Spark's own watermark.

It shares no code with the planner, knows all records that there ever were, and reads offsets as plain JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf

from tests.lives.source import Enumerator, Row
from tests.lives.view import Promise, Union, View, disorder, judge_dropped, raced
from tests.lives.world import LEASE_S, NEVER, Log, Present, counted_ms


@dataclass
class Judge:
    """Judges one source of a world.

    spark_ms: the greatest event time that was delivered up to the batch before.
    busy: in a bounded run, the splits with unread records when it began.
    notes: those of its group; the others' judges know what a note says.
    this_run, stored_run: of the last run, and the last that stored an offset: its begin, newest time and clock's error.
    reported_ms, leaves_ms: the lowest event time that this query tells its group, now and once its batch has tasks.
    """

    present: Present
    member: int
    others: list[Judge] = field(default_factory=list)
    union: Union = field(default_factory=Union)
    targets: dict[str, int] | None = None
    busy: set[str] = field(default_factory=set)
    is_bounded: bool = False
    probed: bool = False
    worst_ms: int = 0
    spark_ms: int = NEVER
    promises: dict[tuple[str, int], Promise] = field(default_factory=dict)
    committed: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    lost: set[tuple[str, int, int]] = field(default_factory=set)
    read_at_s: dict[str, float] = field(default_factory=dict)
    promised: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    timed: list[Row] = field(default_factory=list)
    began: bool = False
    said_away: set[str] = field(default_factory=set)
    reported_ms: int | None = None
    leaves_ms: int | None = None
    renewed_at_s: float = -inf
    this_run: tuple[float, int, float] = (0.0, NEVER, 0.0)
    stored_run: tuple[float, int, float] = (0.0, NEVER, 0.0)
    trusts_clock: bool = True
    notes: dict[str, str] = field(default_factory=dict)
    id: str = ""
    run: str = ""

    def copied(self) -> Judge:
        """Return the judge of a copy of the checkpoint; it knows no others yet, and nobody has heard of it."""
        shared = {id(each): each for each in (self.present, self.notes)}
        copy = deepcopy(self, {**shared, id(self.others): [], id(self.union): Union()})
        copy.reported_ms, copy.renewed_at_s = None, -inf
        return copy

    def may_trust_clock(self) -> bool:
        """Return whether the time since a run was stored is known: the clock did not jump, or new records show it."""
        clock, options, (begun_s, before_ms, adjusted_s) = self.present.clock, self.present.options, self.stored_run
        records = [record for log in self.subscribed.values() for record in log.records[: log.end]]
        times = [at_ms for record in records if (at_ms := counted_ms(record, options, clock.wall_ms)) is not None]
        newest_ms = max(times, default=NEVER)
        self.this_run = (clock.now, newest_ms, clock.adjusted_s)
        return adjusted_s == clock.adjusted_s or 0 < newest_ms - before_ms <= (clock.now - begun_s) * 1000

    def begin_run(self, *, bounded: bool) -> None:
        self.is_bounded, self.targets = bounded, None
        self.trusts_clock &= self.may_trust_clock()

    @property
    def where(self) -> str:
        return " in a bounded run" * self.is_bounded + " in a group" * bool(self.others)

    # Plans.

    def views(self, start: dict, end: dict, enumerator: Enumerator) -> dict[str, View]:
        is_first = self.is_bounded and self.targets is None
        if is_first:
            self.targets = {s: extent.end for s, extent in enumerator.first_said.items()}
        views, now_ms, self.said_away = {}, enumerator.said_at_ms, {*enumerator.said_away}
        for split, extent in enumerator.said.items():
            stood = end.get("starts", {}).get(split, start.get("positions", {}).get(split))
            log = self.present.logs[split]
            if stood is None:
                continue
            stop = self.present.options.stop
            last = readable = extent.end if stop is None else min(extent.end, stop)
            if self.targets is not None:
                last = min(last, self.targets.get(split, extent.begin))
            times = {p: counted_ms(log.records[p], self.present.options, now_ms) for p in range(extent.end)}
            first = stood if stop is not None and stood >= stop else max(stood, extent.begin)
            ended = stop is not None and first >= stop
            views[split] = View(log, extent.begin, first, max(last, stood), extent.settled, readable, times, ended)
        if is_first:
            self.busy = {s for s, v in views.items() if v.position < v.last}
        return views

    def plan(self, start: dict, end: dict, enumerator: Enumerator, report: dict) -> list[Row]:
        """Judge an offset that was just planned; return the rows of its batch."""
        views, now_ms = self.views(start, end, enumerator), enumerator.said_at_ms
        for split in end.get("starts", {}):
            log = self.present.logs[split]
            self.starts.setdefault((split, log.incarnation), end["starts"][split])
            is_new = self.began
            self.promises[split, log.incarnation] = Promise(backlog=not is_new, holding=not is_new)
        self.began = True
        for split, v in views.items():
            self.promises[split, v.log.incarnation].timed |= bool(v.between(v.position, end["positions"][split]))
        self.judge_positions(start, end, views)
        self.judge_size(start, end, views)
        self.judge_idle(start, end, views, enumerator)
        if not raced(views):
            limit_ms = self.limit(start, end, views, now_ms)
            self.judge_bound(start, end, views, limit_ms, now_ms, is_probed=bool(report["inexactSplits"]))
            least_ms = self.limit(start, end, views, now_ms, least=True)
            self.judge_stall(end, views, least_ms)
            if not report["inexactSplits"]:
                self.judge_exact(start, end, views, least_ms, report)
            self.judge_watermark(start, end, views, enumerator)
        there = [at for s, at in end["positions"].items() if s in enumerator.discovered & self.subscribed.keys()]
        at_end = min(there, default=-1) >= (inf if (stop := self.present.options.stop) is None else stop)
        is_known = at_end and not enumerator.said_away  # nobody can say the end of a split that is away
        assert is_known <= end.get("ended", False) <= at_end, "plus infinity is not what all are at their ends for"
        self.note(start, end, views, report)
        self.judge_group(start, end, views, now_ms)
        return [
            Row(s, v.log.incarnation, p, v.times[p])
            for s, v in views.items()
            for p in range(v.position, end["positions"][s])
            if not v.log.records[p].is_marker
        ]

    def remainder(self, start: dict, enumerator: Enumerator, report: dict) -> None:
        """Judge that a plan returned its start: there is nothing to do."""
        start = {key: value for key, value in start.items() if key != "starts"}  # of the batch before
        views = self.views(start, start, enumerator)
        self.judge_stall(start, views, self.limit(start, start, views, enumerator.said_at_ms, least=True))
        self.note(start, start, views, report)
        if self.others:
            self.reported_ms = None if raced(views) else self.low(start, start, views, enumerator.said_at_ms)

    def judge_group(self, start: dict, end: dict, views: dict[str, View], now_ms: int) -> None:
        """Judge that no row is past the bound of the others, and note what they will know of this query."""
        if not self.others:
            return
        for other in (other for other in self.others if other.reported_ms is not None and self.hears(other, start)):
            bound_ms = other.reported_ms + self.present.options.drift_ms
            for split, v in views.items():
                beyond = [
                    t for t in v.between(v.position, end["positions"][split]) if t >= bound_ms + disorder(v.unread)
                ]
                assert not beyond, f"{beyond} of {split} are past the bound of the group, {bound_ms}"
        self.reported_ms = self.leaves_ms = None
        if raced(views):
            return
        self.reported_ms = self.low(start, end, views, now_ms)
        after, at = {key: value for key, value in end.items() if key != "starts"}, end["positions"]
        # What is behind a target that is reached now is known to the next plan only.
        left = {s: v._replace(position=at[s], end=v.last if v.unread else v.end) for s, v in views.items()}
        self.leaves_ms = self.low(after, after, left, now_ms)
        if self.present.options.rows is not None and None not in (self.reported_ms, self.leaves_ms):
            # A split that is cut by its rows keeps its old head until the next plan, which finds a straggler behind it.
            self.leaves_ms = max(self.leaves_ms, self.reported_ms)

    def hears(self, other: Judge, start: dict) -> bool:
        """Return whether this query must take another one into account."""
        note, now_s = self.notes.get(other.id), self.present.clock.now
        if note is None or json.loads(note)["run"] != other.run:
            return False  # a copy of its checkpoint goes on under its name, until it runs again
        if now_s - other.renewed_at_s <= LEASE_S:
            return True
        peer = start.get("group", {}).get("peers", {}).get(other.id)
        if not self.is_bounded:
            return peer is not None and now_s - self.this_run[0] <= LEASE_S
        _, _, silent_ms, sign_ms, _, pauses_ms = peer or [None] * 6
        if silent_ms is None or not self.trusts_clock:
            return silent_ms is None  # by a wrong clock it may be overdue
        usual_ms = [*sorted(pauses_ms or [0])][-1 if len(pauses_ms or []) < 3 else -2]
        overdue_ms = silent_ms if sign_ms is None else sign_ms - usual_ms * 3 // 2
        return min(silent_ms, overdue_ms) + (self.this_run[0] - self.stored_run[0]) * 1000 < LEASE_S * 1000

    def judge_positions(self, start: dict, end: dict, views: dict[str, View]) -> None:
        before, after = start.get("positions", {}), end["positions"]
        for split, position in after.items():
            if split in views:
                v = views[split]
                assert v.position <= position <= max(v.last, v.position), f"{split} is read to {position}: {v}"
            elif split not in end.get("starts", {}):
                assert position == before[split], f"{split} is not there, and was read"
        keys = ["positions", "watermark", "idle", "late", "removed", "ended"]
        keys += ["waits", "group", "starts", "enumerator", "quiet"]
        same = [key for key in keys if start.get(key) != end.get(key)]
        assert not start.get("positions") or same, "a batch without a reason"

    def judge_size(self, start: dict, end: dict, views: dict[str, View]) -> None:
        most = self.present.options.rows
        count = sum(end["positions"][s] - v.position for s, v in views.items())
        assert most is None or count <= max(most, 1), f"{count} rows are over the limit of {most}"

    def late(self, start: dict, end: dict, views: dict[str, View]) -> set[str]:
        """Return the splits that came, or woke, behind the watermark."""
        watermark_ms = start.get("watermark", NEVER)
        said = {*start.get("late", []), *start.get("idle", []), *start.get("removed", []), *end.get("starts", {})}
        return {
            s
            for s, v in views.items()
            if v.next_ms is not None and v.next_ms <= watermark_ms and (s in said or v.position <= v.begin)
        }

    def limit(self, start: dict, end: dict, views: dict[str, View], now_ms: int, *, least: bool = False) -> int | None:
        """Return the event time that no row of the batch may reach; None: there is none.

        least: splits that are read hold at what was delivered and is left.  Records whose time came since do
            not count, nor do those that retention has deleted: a plan asks the log, and a split is idle after a while.
        """
        options = self.present.options
        if not options.aligned:
            return None
        horizon_ms = now_ms + options.skew_ms + 1 if options.future == "hold" else None
        if options.drift_ms is None:
            return horizon_ms
        low_ms = self.low(start, end, views, now_ms, least=least)
        if low_ms is None:
            # A split that was read in the future may hold by itself, which is up to a disorder above the watermark.
            left = [] if least else [at for s, v in views.items() if (at := self.left(s, v, end)) is not None]
            low_ms = max(start.get("watermark", NEVER) + 1, min(left, default=NEVER))
        limit_ms = low_ms + options.drift_ms
        if not (options.late == "catch-up" and self.late(start, end, views)):
            limit_ms = max(limit_ms, start.get("bound", NEVER))
        return limit_ms if horizon_ms is None else min(limit_ms, horizon_ms)

    def low(self, start: dict, end: dict, views: dict[str, View], now_ms: int, *, least: bool = False) -> int | None:
        """Return the lowest event time that is still to come from the splits that hold back the others, if any do."""
        options, watermark_ms, late = self.present.options, start.get("watermark", NEVER), self.late(start, end, views)
        holds = []
        for split, v in views.items():
            head_ms = v.next_ms
            if head_ms is not None:
                is_held = options.future == "hold" and head_ms > now_ms + options.skew_ms
                if split in late:
                    holds += [head_ms] * (options.late == "catch-up")
                elif not is_held:
                    holds.append(max(head_ms, watermark_ms + 1))
            elif (left_ms := self.left(split, v, end)) is not None:
                promise = self.promises[split, v.log.incarnation]
                if least or promise.timed:
                    holds.append(max(min(left_ms, promise.greatest_ms) if least else left_ms, watermark_ms + 1))
        bound_ms = start.get("bound", NEVER)
        if self.away(end, views, least=least) - {*end.get("idle", [])} and max(watermark_ms, bound_ms) > NEVER:
            holds.append(watermark_ms + 1 if watermark_ms > NEVER else bound_ms - options.drift_ms)
        return min(holds, default=None)

    def left(self, split: str, v: View, end: dict) -> int | None:
        """Return the greatest event time of a split that has no more records and is neither idle nor at its end."""
        is_left = v.next_ms is None and split not in end.get("idle", []) and not v.is_finished
        return max(v.known, default=None) if is_left else None

    def away(self, end: dict, views: dict[str, View], *, least: bool) -> set[str]:
        away, stop = self.said_away - views.keys(), None if least else self.present.options.stop  # it may not be known
        return {s for s, at in end["positions"].items() if s in away and (stop is None or at < stop)}

    @property
    def subscribed(self) -> dict[str, Log]:
        return self.present.of(self.member)

    def judge_bound(
        self, start, end, views: dict[str, View], limit_ms: int | None, now_ms: int, *, is_probed: bool
    ) -> None:
        options = self.present.options
        if limit_ms is None:
            return
        for split, v in views.items():
            batch = v.between(v.position, end["positions"][split])
            allowed_ms = disorder(v.unread) if is_probed else 0
            beyond = [t for t in batch if t >= limit_ms + allowed_ms]
            assert not beyond, (
                f"{beyond} of {split} are at or past the bound of {limit_ms} (+ {allowed_ms}){self.where}"
            )
            if options.future == "hold":
                beyond = [t for t in batch if t > now_ms + options.skew_ms]
                assert not beyond, f"{beyond} of {split} are beyond the horizon of {now_ms + options.skew_ms}"
        if end.get("bound") != start.get("bound") and options.drift_ms is not None:
            assert end["bound"] <= limit_ms, f"the stored bound {end['bound']} is past {limit_ms}{self.where}"

    def judge_stall(self, end: dict, views: dict[str, View], limit_ms: int | None) -> None:
        """Judge that rows which may be read come."""
        if self.others:
            return
        due = {s: v.unread[0] for s, v in views.items() if v.unread and (limit_ms is None or v.unread[0] < limit_ms)}
        read = [s for s, v in views.items() if end["positions"][s] > v.position]
        assert read or not due, f"nothing holds {due}, and nothing is read"

    def judge_exact(self, start: dict, end: dict, views: dict[str, View], limit_ms: int | None, report: dict) -> None:
        """Judge a batch without probing: without a limit all before its bound comes, and late rows are counted."""
        read = {s: v.between(v.position, end["positions"][s]) for s, v in views.items()}
        if limit_ms is not None and self.present.options.rows is None and not self.others:
            for split, v in views.items():
                due = [*takewhile(lambda t: t < limit_ms, v.unread)]
                assert read[split][: len(due)] == due, f"{split} has {due} before {limit_ms}, and gives {read[split]}"
        assert self.late(start, end, {s: v for s, v in views.items() if read[s]}) <= {*report["lateSplits"]}, (
            "late in silence"
        )
        is_plain = all(None not in [v.times[p] for p in range(v.position, v.last)] for v in views.values())
        if is_plain and not any(disorder(v.unread) for v in views.values()):
            late = sum(t <= start.get("watermark", NEVER) for times in read.values() for t in times)
            assert report["lateRows"] == late, f"{late} rows are late, and {report['lateRows']} are said to be"

    def judge_idle(self, start: dict, end: dict, views: dict[str, View], enumerator: Enumerator) -> None:
        now_s = self.present.clock.now
        for split in end.get("idle", []):
            if split not in views:
                continue
            v = views[split]
            assert v.settled, f"{split} is idle with an open transaction"
            assert v.position >= v.end, f"{split} is idle with unread records"
            assert split not in self.busy or not self.is_bounded, f"{split} is idle in a bounded run that read it"
            since_s = max(enumerator.said_grown[split], self.read_at_s.get(split, 0.0))
            is_new = self.trusts_clock and (split not in start.get("idle", []) or split in end.get("starts", {}))
            assert not is_new or now_s - since_s >= self.present.options.idle_s - 0.002, f"{split} is idle too early"

    def judge_watermark(self, start: dict, end: dict, views: dict[str, View], enumerator: Enumerator) -> None:
        before_ms, after_ms = start.get("watermark", NEVER), end.get("watermark", NEVER)
        assert after_ms >= before_ms, "the watermark went back"
        disorder_ms = self.present.options.disorder_ms
        assert self.present.options.watermarks or after_ms == NEVER, "a watermark that nobody asked for"
        if after_ms > before_ms:
            # A clock that goes back does not take back what was delivered.
            now_ms, logs = enumerator.said_at_ms, self.subscribed.values()
            known = [counted_ms(r, self.present.options, now_ms) or NEVER for log in logs for r in log.records]
            greatest_ms = max([*known, *(promise.greatest_ms for promise in self.promises.values())])
            assert after_ms < greatest_ms, "the watermark passes every record"
            for split, v in views.items():
                position = end["positions"][split]
                if split in end.get("idle", []) or split in self.late(start, end, views) or v.is_finished:
                    continue
                most_ms = max(v.between(0, position), default=NEVER)
                for p in range(position, v.last):
                    if (at_ms := v.times[p]) is None:
                        continue
                    most_ms = max(most_ms, at_ms)
                    assert at_ms > after_ms or at_ms < most_ms - disorder_ms, (
                        f"the watermark {after_ms} passes {at_ms}, which {split} is still to deliver"
                    )

    # What Spark does with the rows.

    def note(self, start: dict, end: dict, views: dict[str, View], report: dict) -> None:
        """Note what is promised to the rows of a batch, and which splits keep the promises after it."""
        options = self.present.options
        self.probed |= bool(report["inexactSplits"])
        # Records that were in the future may be in more disorder than the options say, once their time has come.
        self.worst_ms = max([self.worst_ms, *(disorder(v.between(0, v.end)) for v in views.values())])
        late, self.promised = self.late(start, end, views), {}
        away, after_ms = self.away(end, views, least=False), end.get("watermark", NEVER)
        for split in late:
            left = views[split].between(end["positions"][split], views[split].end)
            is_late = bool(left) and left[0] <= after_ms
            assert not is_late or split in end.get("late", []), f"{split} is late, and forgotten before it caught up"
        for split, log in self.present.logs.items():
            promise = self.promises.get((split, log.incarnation))
            if promise is None:
                continue
            v = views.get(split)
            if v is None or split in late or split in end.get("idle", []) or not options.aligned:
                promise.backlog = False
                # Before anything is read there is no bound at which an unavailable split could hold.
                is_holding = split in away and options.drift_ms is not None
                promise.holding &= is_holding and max(start.get("watermark", NEVER), start.get("bound", NEVER)) > NEVER
                continue
            keeps = options.drift_ms is not None and bool(v.known) and promise.timed
            promise.backlog &= bool(v.unread)
            promise.holding &= bool(v.unread) or keeps
            self.promised[split] = promise.backlog, promise.holding
            left = v.between(end["positions"][split], v.last)
            promise.backlog &= bool(left)
            promise.holding &= bool(left) or keeps
            if end["positions"][split] > v.position:
                self.read_at_s[split] = self.present.clock.now

    def read(self, planned: list[Row] | None, got: list[Row]) -> None:
        """Judge that a batch has the rows that were planned, whenever it is read."""
        there = {r for r in planned if not self.is_gone(r)}
        assert len(set(got)) == len(got), "a row comes twice in a batch"
        others = sorted(set(got) ^ there, key=str)
        assert not others, f"the batch was planned otherwise than it is read: {others[:4]}"
        self.reported_ms = self.leaves_ms
        self.lost |= {row[:3] for row in planned} - {row[:3] for row in got}

    def is_gone(self, row: Row) -> bool:
        log = self.present.logs[row.split]
        return log.incarnation != row.incarnation or row.position < log.begin

    def commit(self, got: list[Row]) -> None:
        options = self.present.options
        for row in got:
            before = self.committed[row.split, row.incarnation]
            assert not before or row.position > before[-1], f"{row} comes again, or out of order"
            before.append(row.position)
            if row.at_ms is None:
                continue
            self.timed.append(row)
            promise = self.promises[row.split, row.incarnation]
            promise.greatest_ms = max(promise.greatest_ms, row.at_ms)
            if row.at_ms < promise.greatest_ms - options.disorder_ms or self.is_overtaken(row):
                continue
            back_fill_ms = self.delay_ms()
            backlog, holding = self.promised.get(row.split, (False, False))
            if backlog:
                judge_dropped(row, back_fill_ms, self.spark_ms)
            if holding:
                judge_dropped(row, self.union.delay_ms(), self.union.spark_ms)
        self.spark_ms = max([self.spark_ms, *(row.at_ms for row in got if row.at_ms is not None)])
        self.union.greatest_ms = max(self.union.greatest_ms, self.spark_ms)

    def delay_ms(self) -> int:
        """Return the delay of a back-fill."""
        disorder_ms = self.present.options.disorder_ms
        return 1 + (2 * max(disorder_ms, self.worst_ms) if self.probed else disorder_ms)

    def is_overtaken(self, row: Row) -> bool:
        """Return whether records before a row were in the future, and are no longer: the row is late by its split."""
        options, now_ms = self.present.options, self.present.latest_ms
        log = self.present.logs[row.split]
        before = log.records[: row.position] if log.incarnation == row.incarnation else []
        times = [t for r in before if (t := counted_ms(r, options, now_ms)) is not None]
        return row.at_ms < max(times, default=NEVER) - options.disorder_ms

    def end(self, last: dict) -> None:
        """Judge that everything was delivered once, when nothing more comes."""
        for split, log in self.subscribed.items():
            key = split, log.incarnation
            stop = len(log.records) if self.present.options.stop is None else self.present.options.stop
            begin = max(log.begin, self.starts.get(key, log.begin))
            due = [p for p, record in enumerate(log.records[:stop]) if p >= begin and not record.is_marker]
            missing = [p for p in due if p not in self.committed[key] and (*key, p) not in self.lost]
            assert not missing, f"{split} was not delivered: {missing[:5]}"
        left = {(s, log.incarnation): log.begin for s, log in self.subscribed.items()}
        times = [row.at_ms for row in self.timed if row.position >= left.get(row[:2], row.position + 1)]
        if times and self.present.options.watermarks:
            least_ms = max(times) - self.present.options.disorder_ms - 1
            assert last.get("watermark", NEVER) >= least_ms, f"a window waits for ever for {least_ms}"
