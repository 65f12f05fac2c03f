"""Lives a world: its steps happen, and its queries go on exactly as Spark's MicroBatchExecution lets them.

An offset is logged before its batch is read, and a batch is committed after it is read.  A new run repeats the batch
that was logged and not committed, and only then plans.
"""

from __future__ import annotations

import json

from tests.lives.judge import Judge
from tests.lives.source import Row, source_of
from tests.lives.world import LEASE_S, WALL_MS, Batches, Crash, Elect, Meanwhile, Pass, Present, Recreate, Trim, World
from tidegate.alignment.budget import Budget
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.sources.bridge import Driver, coordinator_of

PHASES = ("plan", "log", "read", "commit")
MOST_BATCHES = 400


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
    """A query with its checkpoint, started again and again."""

    def __init__(self, present: Present, member: int, notes: Notes | None) -> None:
        self.present, self.member, self.notes = present, member, notes
        self.judge = Judge(present, member)
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
        driver = Driver(1 + len(self.offsets) % 4, "lives")
        self.run = coordinator_of(self.source, driver, self.group, clocks=self.present.clock.clocks)
        self.judge.begin_run(bounded=self.bounded)
        if self.bounded:
            self.run.bound_run()
        if len(self.offsets) > self.commits:
            self.read()
            self.commit()

    def kill(self) -> None:
        self.run = None

    def parsed(self, number: int) -> dict:
        return json.loads(self.offsets[number]) if 0 <= number < len(self.offsets) else dict(INITIAL_OFFSET)

    def batch(self) -> bool:
        """Run a trigger; return whether there was a batch."""
        return all(self.do(phase) for phase in PHASES)

    def do(self, phase: str) -> bool:
        """Go on by a phase of a batch; return whether it goes on."""
        if phase == "plan":
            return self.plan()
        if phase == "log":
            self.offsets.append(self.planned)
        elif phase == "read":
            self.read()
        else:
            self.commit()
        return True

    def plan(self) -> bool:
        if self.run is None:
            self.start()
        start = self.parsed(len(self.offsets) - 1)
        self.renew()
        end = self.run.latest_offset(start, Budget(rows=self.present.options.rows))
        self.renew()
        self.judge.id = end.get("group", {}).get("id", "")
        text = json.dumps(end)
        enumerator, report = self.source._opened, self.run.source_progress()
        if self.offsets and text == self.offsets[-1]:
            self.judge.rest(start, enumerator, report)
            if self.bounded:
                self.run.close()
                self.run = None
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
        again = coordinator_of(source, Driver(2, "lives"), clocks=self.present.clock.clocks)
        other, end = again.latest_offset(start, Budget(rows=present.options.rows)), json.loads(planned)
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


class Life:
    """A world as it goes on."""

    def __init__(self, world: World) -> None:
        self.world, self.present = world, Present(world.options)
        notes = Notes() if world.options.members > 1 else None
        self.queries = [Query(self.present, member, notes) for member in range(world.options.members)]
        for query in self.queries:
            query.judge.others = [other.judge for other in self.queries if other is not query]

    def live(self) -> None:
        for step in self.world.steps:
            self.happen(step)
        self.end()

    def happen(self, step: object) -> None:
        match step:
            case Batches(member, count):
                self.batches(self.queries[member], count)
            case Crash(member, after, bounded):
                query = self.queries[member]
                for phase in PHASES[: PHASES.index(after) + 1]:
                    if not query.do(phase):
                        break
                query.kill()
                query.bounded = bounded or self.present.options.bounded
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

    def committed(self, split: str) -> int:
        """Return how many of the first records that are left everybody has committed."""
        log = self.present.logs.get(split)
        readers = [query for query in self.queries if split in self.present.of(query.member)]
        read = [query.parsed(query.commits - 1).get("positions", {}).get(split, 0) for query in readers]
        return 0 if log is None else max(0, min(read, default=0) - log.begin)

    @staticmethod
    def batches(query: Query, most: int) -> int:
        """Run triggers until there is nothing to do; return the number of batches."""
        return next((count for count in range(most) if not query.batch()), most)

    def pass_by(self, step: Pass) -> None:
        """Let time pass; planners that live renew their notes meanwhile."""
        left_s = step.seconds
        while left_s > 0:
            self.present.happen(Pass(min(left_s, LEASE_S / 4)))
            left_s -= LEASE_S / 4
            for query in self.queries:
                query.renew()
        self.present.happen(Pass(0.0, step.wall_s))

    def end(self) -> None:
        """Let nothing more come, and everything be read."""
        present, options = self.present, self.present.options
        present.settle()
        for query in self.queries:
            query.kill()
        greatest_ms = [r.at_ms for log in present.logs.values() for r in log.records if r.at_ms is not None]
        quiet = 0
        for round_number in range(MOST_BATCHES):
            if round_number == 3:
                # The time of every record comes.
                ahead_s = max([0.0, *((at_ms - present.clock.wall_ms) / 1000 for at_ms in greatest_ms)])
                self.pass_by(Pass(0.0, ahead_s))
            batches = [self.batches(query, MOST_BATCHES) for query in self.queries]
            self.pass_by(Pass(max(options.idle_s, LEASE_S) / 4 + 1))
            quiet = 0 if any(batches) else quiet + 1
            if quiet > 10 and round_number > 12:
                break
        else:
            raise AssertionError("batches never end")
        for query in self.queries:
            query.judge.end(query.parsed(len(query.offsets) - 1))
