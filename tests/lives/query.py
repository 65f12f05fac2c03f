"""Lives a world: its steps happen, and its queries go on exactly as Spark's MicroBatchExecution lets them.

An offset is logged before its batch is read, and a batch is committed after it is read.  A new run repeats the batch
that was logged and not committed, and only then plans.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.lives.judge import Judge, Union
from tests.lives.source import Row, source_of
from tests.lives.world import (
    LEASE_S,
    WALL_MS,
    Batches,
    Copy,
    Crash,
    Elect,
    Meanwhile,
    Pass,
    Present,
    Recreate,
    Runs,
    Trim,
    World,
)
from tidegate.alignment.budget import Budget
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.sources.bridge import Driver, coordinator_of

PHASES = ("plan", "log", "read", "commit")
MOST_BATCHES, MONTH_S = 400, 2_600_000.0


class Notes:
    """The notes of a group, in memory."""

    repeat_s = 0.0

    def __init__(self) -> None:
        self.stored: dict[str, str] = {}

    def write(self, name, note):
        self.stored[name] = json.dumps(note)

    def read(self, name):
        return json.loads(self.stored[name]) if name in self.stored else None

    def notes(self):
        return [(name, json.loads(note)) for name, note in sorted(self.stored.items())]

    def sweep(self):
        """Lives are shorter than the day after which notes are removed."""

    def remove(self, name):
        self.stored.pop(name, None)


class Query:
    """A source of a query, with its part of the checkpoint, started again and again."""

    def __init__(self, present: Present, member: int, notes: Notes | None) -> None:
        self.present, self.member, self.notes = present, member, notes
        self.judge = Judge(present, member, notes={} if notes is None else notes.stored)
        self.bounded = present.options.bounded
        self.offsets: list[str] = []
        self.commits = 0
        self.rows: list[Row] | None = None  # of the batch that was logged last, as it was planned
        self.run = self.group = None

    def start(self) -> None:
        """Begin a run, and repeat a batch that is not committed."""
        options = self.present.options
        self.source = source_of(self.present, self.member)
        if self.notes is not None:
            self.group = GroupFolder(self.notes, options.drift_ms, lease_s=LEASE_S, clocks=self.present.clock.clocks)
            self.judge.run = self.group._run
        driver = Driver(1 + len(self.offsets) % 4, "lives")
        self.run = coordinator_of(self.source, driver, self.group, clocks=self.present.clock.clocks)
        self.judge.begin_run(bounded=self.bounded)
        if self.bounded:
            self.run.bound_run()
        if len(self.offsets) > self.commits:
            self.read()
            self.commit()

    def copied(self) -> Query:
        """Return another query that goes on from the same checkpoint."""
        copy = Query(self.present, self.member, self.notes)
        copy.judge, copy.bounded = self.judge.copied(), self.bounded
        copy.offsets, copy.commits, copy.rows = [*self.offsets], self.commits, self.rows
        return copy

    def kill(self) -> None:
        self.run = None

    def end_run(self) -> None:
        if self.run is not None:
            self.run.close()
        self.run = None

    def parsed(self, number: int) -> dict:
        return json.loads(self.offsets[number]) if 0 <= number < len(self.offsets) else dict(INITIAL_OFFSET)

    def log(self) -> None:
        self.offsets.append(self.planned)
        self.judge.stored_run = self.judge.this_run

    def plan(self) -> bool:
        start = self.parsed(len(self.offsets) - 1)
        self.renew()
        end = self.run.latest_offset(start, Budget(rows=self.present.options.rows))
        self.renew()
        self.judge.id = end.get("group", {}).get("id", "")
        text = json.dumps(end)
        enumerator, report = self.source._opened, self.run.source_progress()
        if self.offsets and text == self.offsets[-1]:
            self.judge.remainder(start, enumerator, report)
            return False
        self.judge_restart(start, text)
        self.planned = text
        self.rows = self.judge.plan(start, json.loads(text), enumerator, report)
        return True

    def judge_restart(self, start: dict, planned: str) -> None:
        """Judge that only the checkpoint matters: a new run plans the same.

        Records that were in the future are an exception, because a run remembers which of them were left out.
        """
        said, present = self.source._opened.said, self.present
        logs = self.judge.subscribed
        is_future = any((r.at_ms or 0) > WALL_MS for log in logs.values() for r in log.records)
        raced = any(s not in said or logs[s].begin != said[s].begin for s in logs)
        if self.bounded or self.group is not None or is_future or raced or len(self.offsets) % 3:
            return
        source = source_of(present, self.member)
        source._frozen = dict(said)
        again, end = coordinator_of(source, Driver(2, "lives"), clocks=present.clock.clocks), json.loads(planned)
        now_ms = end["horizon"] - present.options.skew_ms - 1 if "horizon" in end else present.clock.wall_ms
        with present.clock.standing_at(now_ms):
            other = again.latest_offset(start, Budget(rows=present.options.rows))
        if other.get("idle") == end.get("idle"):  # the timers of idleness begin anew
            assert other == end, f"a restart plans {other}, and not {end}"

    def read(self) -> None:
        start, end = self.parsed(len(self.offsets) - 2), self.parsed(len(self.offsets) - 1)
        tasks = self.run.tasks(start, end)
        assert tasks == self.run.tasks(start, end), "the tasks of a batch change"
        reader = self.source.reader(end.get("enumerator"))
        self.got = [row for task in tasks for row in reader.rows(task)]
        self.judge.read(self.rows, self.got)

    def commit(self) -> None:
        self.judge.commit(self.got)
        self.commits = len(self.offsets)

    def renew(self) -> None:
        if self.run is not None and self.group is not None and self.group._joined:
            self.group.renew()
            self.judge.renewed_at_s = self.present.clock.now


class Job:
    """A query of one source, or of several, whose batches Spark makes together."""

    def __init__(self, queries: Sequence[Query], union: Union) -> None:
        self.queries, self.union = queries, union
        union.judges = [query.judge for query in queries]
        self.planned: list[Query] = []
        for query in queries:
            query.judge.union = union

    def copied(self) -> Job:
        return Job([query.copied() for query in self.queries], Union(spark_ms=self.union.spark_ms))

    def start(self) -> None:
        """Begin a run of each source that has none."""
        for query in self.queries:
            if query.run is None:
                query.start()
        self.union.end_batch()

    def batch(self) -> bool:
        """Run a trigger; return whether there was a batch."""
        return all(self.do(phase) for phase in PHASES)

    def do(self, phase: str) -> bool:
        """Go on by a phase of a batch; return whether it goes on."""
        if phase == "plan":
            self.start()
            self.planned = [query for query in self.queries if query.plan()]
            if not self.planned and self.queries[0].bounded:
                self.end_run()
            return bool(self.planned)
        for query in self.planned:
            getattr(query, phase)()
        if phase == "commit":
            self.union.end_batch()
        return True

    def bound(self, *, bounded: bool) -> None:
        """Let the next runs be AvailableNow, or not."""
        for query in self.queries:
            query.bounded = bounded or query.present.options.bounded

    def kill(self) -> None:
        for query in self.queries:
            query.kill()

    def end_run(self) -> None:
        for query in self.queries:
            query.end_run()


class Life:
    """A world as it goes on."""

    def __init__(self, world: World) -> None:
        self.world, self.present = world, Present(world.options, self.renew)
        notes = Notes() if world.options.members > 1 else None
        queries = [Query(self.present, member, notes) for member in range(world.options.members)]
        self.jobs = [Job(of, Union()) for of in ([queries] if world.options.joint else [[q] for q in queries])]
        self.introduce()

    @property
    def queries(self) -> list[Query]:
        return [query for job in self.jobs for query in job.queries]

    def introduce(self) -> None:
        """Let each judge know the others of its group."""
        for query in self.queries:
            is_group = query.notes is not None
            query.judge.others = [other.judge for other in self.queries if other is not query and is_group]

    def renew(self) -> None:
        for query in self.queries:
            query.renew()

    def live(self) -> None:
        for step in self.world.steps:
            self.present.clock.sleeps = 0
            self.happen(step)
        self.end()

    def happen(self, step: object) -> None:
        match step:
            case Batches(job, _) | Crash(job) | Copy(job) if job >= len(self.jobs):
                pass  # it is a step of a copy that was left out
            case Batches(job, count):
                self.batches(self.jobs[job], count)
            case Runs():
                self.run(step)
            case Copy(number):
                self.jobs[number].end_run()
                self.jobs.append(self.jobs[number].copied())
                self.introduce()
            case Crash(number, after, bounded):
                job = self.jobs[number]
                _crash(job, after)
                job.bound(bounded=bounded)
            case Pass():
                self.pass_by(step)
            case Recreate() | Elect() if not self.present.options.loses:
                pass
            case Meanwhile(Trim()) if not self.present.options.loses:
                pass
            case Trim(split, count) if not self.present.options.loses:
                self.present.happen(Trim(split, min(count, self.committed(split))))
            case _:
                self.present.happen(step)

    def run(self, step: Runs) -> None:
        jobs = [self.jobs[number] for number in step.jobs if number < len(self.jobs)]
        if jobs and step.killed is not None:
            count, phase = step.killed
            self.batches(jobs[0], count)
            _crash(jobs[0], phase)
        going = jobs
        for _ in range(MOST_BATCHES):
            if not going:
                return
            for job in going if step.at_once else going[:1]:
                if not job.batch():
                    going = [other for other in going if other is not job]
        raise AssertionError("batches never end")

    def committed(self, split: str) -> int:
        """Return how many of the first records that are left everybody has committed."""
        log = self.present.logs.get(split)
        readers = [query for query in self.queries if split in self.present.of(query.member)]
        read = [query.parsed(query.commits - 1).get("positions", {}).get(split, 0) for query in readers]
        return 0 if log is None else max(0, min(read, default=0) - log.begin)

    @staticmethod
    def batches(job: Job, most: int) -> int:
        """Run triggers until there is nothing to do; return the number of batches."""
        return next((count for count in range(most) if not job.batch()), most)

    def pass_by(self, step: Pass) -> None:
        """Let time pass; planners that live renew their notes meanwhile."""
        left_s, part_s = step.seconds, LEASE_S / 4
        if all(query.run is None for query in self.queries):
            part_s = max(part_s, left_s)
        while left_s > 0:
            self.present.happen(Pass(min(left_s, part_s)))
            left_s -= part_s
            self.renew()
        self.present.happen(Pass(0.0, step.wall_s))

    def end(self) -> None:
        """Let nothing more come, and everything be read."""
        present, options = self.present, self.present.options
        present.settle()
        for job in self.jobs:
            job.kill()
        greatest_ms = [r.at_ms for log in present.logs.values() for r in log.records if r.at_ms is not None]
        quiet = 0
        for round_number in range(MOST_BATCHES):
            if round_number == 3:
                # The time of every record comes.
                ahead_s = max([0.0, *((at_ms - present.clock.wall_ms) / 1000 for at_ms in greatest_ms)])
                self.pass_by(Pass(0.0, ahead_s))
            present.clock.sleeps = 0
            batches = [self.batches(job, MOST_BATCHES) for job in self.jobs]
            # Bounded runs wait for what came from run to run, and by the wall clock days may lie between these.
            wall_s = MONTH_S if round_number % 5 == 4 else 0.0
            self.pass_by(Pass(max(options.idle_s, LEASE_S) / 4 + 1, wall_s))
            quiet = 0 if any(batches) else quiet + 1
            if quiet > 10 and round_number > 12:
                break
        else:
            raise AssertionError("batches never end")
        for query in self.queries:
            query.judge.end(query.parsed(len(query.offsets) - 1))


def _crash(job: Job, after: str) -> None:
    """Begin a batch of a job, and kill it after a phase."""
    all(job.do(phase) for phase in PHASES[: PHASES.index(after) + 1])
    job.kill()
