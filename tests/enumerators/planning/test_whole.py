"""Whole lives of a query: everything that can happen to it, in any order, judged by ``oracle``.

The machine calls a coordinator exactly as Spark's MicroBatchExecution does.  An offset is logged
before its batch is read.  A batch is committed after it is read.  A new run replays the last batch that
was logged but not committed, and only then plans.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.enumerators.planning.oracle import Judge, Peeks, Source, Terms, World
from tests.support.logs import Clock, coordinator
from tests.support.offsets import unpacked
from tidegate.alignment.budget import Budget
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET

DISCOVERY_S = 30.0
IDLE_S = 60.0
DELAY_S = 45.0
GAPS = st.sampled_from([0, 0, 1, 1, 3, 9, 11, 40, 900])
SPLITS = st.integers(0, 5)
THEN = st.sampled_from([0, 0, 1, 1, 2, 4])  # how many batches follow at once

TERMS = st.builds(
    Terms,
    drift_ms=st.sampled_from([None, 1, 10, 10, 10, 1000]),
    disorder_ms=st.sampled_from([0, 0, 0, 4, 60]),
    watermarks=st.sampled_from([True, True, True, False]),
    idle_s=st.sampled_from([5.0, IDLE_S]),
    late_splits=st.sampled_from(["admit", "catch-up"]),
    aligned=st.sampled_from([True, True, True, True, False]),
    sighted=st.sampled_from([True, True, False]),
    may_lose=st.sampled_from([True, True, False]),
    min_rows=st.sampled_from([0, 0, 0, 0, 6]),
    discovery_s=st.sampled_from([0.0, 0.0, DISCOVERY_S]),
)


def parsed(text):
    return unpacked(stored(text))


def stored(text):
    return INITIAL_OFFSET if text is None else json.loads(text)


class Query(RuleBasedStateMachine):
    """One query with its checkpoint, restarted again and again, over a world that changes."""

    @initialize(terms=TERMS, splits=st.integers(0, 3), rows=st.sampled_from([None, None, 1, 3, 20]))
    def begin(self, terms, splits, rows):
        self.begin_with(terms, splits, rows)

    def begin_with(self, terms, splits, rows):
        self.clock = Clock()
        self.world = World(self.clock)
        self.terms, self.rows, self.cores = terms, rows, 2
        self.judge = Judge(self.world, terms)
        # The checkpoint: the state that survives a crash.
        self.offsets, self.commits = [], 0
        # The run: the state that does not.
        self.run = self.source = None
        self.bounded = False
        self.phase, self.end, self.was_read = "idle", None, None
        for _ in range(splits):
            self.world.add_split(f"s{len(self.world.begins)}")
        self.start(bounded=False, cores=2)

    # Events of the data.

    def drawn_times(self, split, gaps, begin_ms):
        log = self.world.log(split) + [t for s, times in self.world.coming if s == split for t in times]
        most_ms, times = max(log, default=begin_ms), []
        for gap, back in gaps:
            most_ms += gap
            times.append(most_ms - (0 if not log and not times else min(back, self.terms.disorder_ms)))
        return times

    def pick(self, which):
        names = sorted(self.world.times)
        return names[which % len(names)] if names else None

    appends = st.lists(st.tuples(GAPS, st.sampled_from([0, 0, 1, 4, 60])), min_size=1, max_size=6)
    begins = st.sampled_from([0, 5, 100, 1000, 2000])

    @rule(which=SPLITS, gaps=appends, begin_ms=begins, then=THEN)
    def append(self, which, gaps, begin_ms, then):
        if split := self.pick(which):
            times = self.drawn_times(split, gaps, begin_ms)
            if any(s == split for s, _ in self.world.coming):
                self.world.coming.append((split, times))  # or they would overtake each other
            else:
                self.world.append(split, times)
        self.go_on(then)

    @rule(which=SPLITS, gaps=appends, begin_ms=begins, then=THEN)
    def append_during_the_next_plan(self, which, gaps, begin_ms, then):
        if split := self.pick(which):
            self.world.coming.append((split, self.drawn_times(split, gaps, begin_ms)))
        self.go_on(then)

    @precondition(lambda self: len(self.world.begins) < 6)
    @rule(
        stop=st.sampled_from([None, None, None, None, 0, 2]),
        gaps=st.one_of(st.just([]), appends, appends),
        begin_ms=begins,
        then=THEN,
    )
    def new_split(self, stop, gaps, begin_ms, then):
        split = f"s{len(self.world.begins)}"
        self.world.add_split(split, stop)
        self.world.append(split, self.drawn_times(split, gaps, begin_ms))
        self.go_on(then)

    @precondition(lambda self: len(self.world.begins) < 8 and self.offsets and self.run is not None)
    @rule(which=SPLITS, gaps=appends, ahead=appends, back=st.sampled_from([1, 6, 20, 500]))
    def new_split_behind_the_watermark(self, which, gaps, ahead, back):
        self.append(which, ahead, 0, then=0)  # so that other splits have records to go on with
        behind_ms = parsed(self.offsets[-1]).get("watermark", 0) - back
        self.clock.sleep(self.terms.discovery_s)
        self.new_split(None, gaps, behind_ms, then=2)

    @precondition(lambda self: self.world.times and self.offsets and self.run is not None)
    @rule(which=SPLITS, gaps=appends, ahead=appends)
    def wake(self, which, gaps, ahead):
        self.time_passes(self.terms.idle_s, then=2)
        idle = [s for s in parsed(self.offsets[-1]).get("idle", []) if s in self.world.times]
        if idle:
            self.append(which, ahead, 0, then=0)
            self.append(sorted(self.world.times).index(idle[which % len(idle)]), gaps, 0, then=2)

    @precondition(lambda self: self.terms.may_lose and self.world.times)
    @rule(which=SPLITS)
    def remove(self, which):
        split = self.pick(which)
        self.world.gone[split] = self.world.times.pop(split)

    @precondition(lambda self: self.world.gone)
    @rule()
    def bring_back(self):
        split = min(self.world.gone)
        self.world.times[split] = self.world.gone.pop(split)

    @rule(which=SPLITS, count=st.integers(1, 5), meanwhile=st.booleans())
    def trim(self, which, count, meanwhile):
        if split := self.pick(which):
            begin = self.world.begins[split] + count
            if not self.terms.may_lose:
                begin = min(begin, max(self.world.committed[split], default=-1) + 1)
            if meanwhile:
                self.world.deleting.append((split, begin))
            else:
                self.world.trim(split, begin)

    @rule(which=SPLITS)
    def open_or_close_a_transaction(self, which):
        if split := self.pick(which):
            self.world.unsettled ^= {split}

    @rule(seconds=st.sampled_from([0.2, 3.0, 6.0, 31.0, 61.0, 100.0]), then=THEN)
    def time_passes(self, seconds, then):
        self.clock.sleep(seconds)
        self.go_on(then)

    # Events of the user.

    @rule(rows=st.sampled_from([None, 1, 2, 5, 50]))
    def resize(self, rows):
        self.rows = rows

    @precondition(lambda self: self.run is None)
    @rule(
        bounded=st.sampled_from([False, False, True]),
        cores=st.integers(1, 4),
        drift=st.sampled_from(["as before", "as before", "as before", None, 5]),
    )
    def start(self, bounded, cores, drift="as before"):
        self.cores, self.bounded = cores, bounded
        if drift != "as before":
            self.terms = self.judge.terms = replace(self.terms, drift_ms=drift)
        self.judge.targets = None
        self.source, self.run, self.opened = self.new_run()
        if bounded:
            self.run.bound_run()
        self.phase = "idle"
        if len(self.offsets) > self.commits:
            self.phase, self.end = "logged", self.offsets[-1]

    @rule(meanwhile=st.lists(st.tuples(SPLITS, GAPS, st.sampled_from([0.2, 6.0, 61.0])), min_size=1, max_size=5))
    def run_to_an_end_while_more_comes(self, meanwhile):
        self.run = None
        self.start(bounded=True, cores=2)
        for which, gap, seconds in meanwhile:
            self.append(which, [(gap, 0)], 5, then=1)
            self.time_passes(seconds, then=0)

    def new_run(self, frozen=None):
        source = (Source if self.terms.sighted else Peeks)(self.world, frozen)
        ms = timedelta(milliseconds=1)
        strategy = WatermarkStrategy(
            out_of_orderness=self.terms.disorder_ms * ms if self.terms.watermarks else None,
            idle_timeout=timedelta(seconds=self.terms.idle_s),
            max_drift=None if self.terms.drift_ms is None else self.terms.drift_ms * ms,
        )
        opened = []
        run = coordinator(
            source,
            self.clock,
            self.cores,
            opened,
            watermarks=strategy,
            aligned=self.terms.aligned,
            fail_on_data_loss=not self.terms.may_lose,
            late_splits=self.terms.late_splits,
            discovery_interval_s=self.terms.discovery_s,
            max_trigger_delay_s=DELAY_S,
            min_tasks=self.cores - 1 or None,
        )
        return source, run, opened

    @precondition(lambda self: self.run is not None)
    @rule(steps=st.integers(0, 3), restarted=st.booleans(), bounded=st.booleans(), cores=st.integers(1, 4))
    def crash(self, steps, restarted, bounded, cores):
        for _ in range(steps):
            if self.run is not None:
                self.step()
        self.run = None
        if restarted:
            self.start(bounded, cores)
            self.go_on(1)

    @precondition(lambda self: self.run is not None)
    @rule()
    def stop(self):
        self.run.close()
        self.run = None

    # Spark's steps, one by one, so that any event can come between two steps.

    @precondition(lambda self: self.run is not None)
    @rule()
    def step(self):
        getattr(self, f"step_from_{self.phase}")()

    @precondition(lambda self: self.run is not None)
    @rule(count=st.integers(1, 4))
    def trigger(self, count):
        self.go_on(count)

    def go_on(self, count):
        for _ in range(count):
            if self.run is not None:
                self.step()
            while self.run is not None and self.phase != "idle":
                self.step()

    def step_from_idle(self):
        text = self.offsets[-1] if self.offsets else None
        start = parsed(text)
        end = self.run.latest_offset(stored(text), Budget(rows=self.rows), self.terms.min_rows)
        assert len(self.opened) == 1, "the enumerator is opened once per run"
        if self.bounded and self.judge.targets is None:
            self.judge.targets = {s: extent.end for s, extent in self.source.first_said.items()}
        if json.dumps(end) == (text or json.dumps(INITIAL_OFFSET)):
            assert text is not None, "batch 0 is never logged"
            self.judge.judge_repeat(start, self.source.said)
            if self.bounded:
                self.stop()
            return
        end_text = json.dumps(end)
        end = parsed(end_text)
        assert not start.get("positions") or any(
            start.get(key) != end.get(key) for key in start.keys() | end.keys() if key not in {"bound", "starts"}
        ), "nothing changed, but there is a new offset"
        self.judge.judge_plan(start, end, self.source.said, self.rows, self.run.source_progress())
        self.judge_restart(start, end)
        self.phase, self.end = "planned", end_text

    def judge_restart(self, start, end):
        """Only the checkpoint may matter: a new run would have planned the same."""
        if self.bounded or any(extent.begin != self.world.begins[s] for s, extent in self.source.said.items()):
            return
        _, again, _ = self.new_run(dict(self.source.said))
        other = parsed(json.dumps(again.latest_offset(start, Budget(rows=self.rows))))
        if other.get("idle") == end.get("idle"):
            assert other == end, "a restart plans something else"

    def step_from_planned(self):
        self.offsets.append(self.end)
        self.phase = "logged"

    def batch(self):
        return parsed(self.offsets[-2] if len(self.offsets) > 1 else None), parsed(self.offsets[-1])

    def step_from_logged(self):
        start, end = self.batch()
        tasks = self.run.tasks(start, end)
        assert tasks == self.run.tasks(start, end)
        self.was_read = self.judge.judge_batch(start, end, tasks)
        self.phase = "read"

    def step_from_read(self):
        self.judge.commit(self.was_read, self.batch()[1])
        self.commits = len(self.offsets)
        self.phase = "idle"

    # Whatever happened before: once no more records come, everything is read.

    def teardown(self):
        if sys.exc_info()[0] is not None or not hasattr(self, "world"):
            return
        world = self.world
        self.finish_coming()
        self.run = None
        self.start(bounded=len(self.offsets) % 2 == 1, cores=2)
        quiet, most = 0, 60 + 5 * sum(len(times) for times in world.times.values())
        for _ in range(most):
            before = len(self.offsets)
            if self.run is None:
                self.start(bounded=quiet == 0, cores=2)
            self.go_on(1)
            self.clock.sleep(DISCOVERY_S + 1)
            quiet = quiet + 1 if len(self.offsets) == before else 0
            if quiet > 6:
                break
        assert quiet > 6, "no end"
        self.judge.judge_all(parsed(self.offsets[-1]))

    def finish_coming(self):
        for split in list(self.world.gone):
            self.world.times[split] = self.world.gone.pop(split)
        self.world.happen_meanwhile()
        self.world.unsettled.clear()


class AlignedQuery(Query):
    """A query whose cuts must be exact to the record: late splits, wakes and restarts."""

    @initialize(
        drift_ms=st.sampled_from([5, 10]),
        late_splits=st.sampled_from(["admit", "catch-up"]),
        idle_s=st.sampled_from([5.0, IDLE_S]),
        splits=st.integers(1, 3),
    )
    def begin(self, drift_ms, late_splits, idle_s, splits):
        terms = Terms(drift_ms, idle_s=idle_s, late_splits=late_splits, may_lose=False, discovery_s=0.0)
        self.begin_with(terms, splits, None)


TestWholeLives = Query.TestCase
TestAlignedLives = AlignedQuery.TestCase
TestWholeLives.settings = TestAlignedLives.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
