"""Makes up worlds, and shortens those in which something goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from tests.lives.world import (
    WALL_MS,
    Append,
    Away,
    Batches,
    Copy,
    Crash,
    Elect,
    Meanwhile,
    Options,
    Pass,
    Record,
    Recreate,
    Runs,
    Transact,
    Trim,
    Vanish,
    World,
)

GAPS_MS = (0, 0, 1, 1, 1_000, 1_000, 3_000, 9_000, 11_000, 40_000, 900_000)
BEGINS_MS = (10_000_000, 10_000_000, 10_005_000, 10_100_000, 50_000_000, 99_990_000)
MOST_SPLITS = 6
WEIGHTS = {
    "batches": 36,
    "append": 22,
    "live": 6,
    "passing": 10,
    "crash": 8,
    "another": 4,
    "meanwhile": 3,
    "trim": 3,
    "recreate": 2,
    "elect": 2,
    "transact": 2,
    "vanish": 1,
    "away": 2,
    "adjust": 1,
}
OF_A_SPLIT = {"transact": Transact, "vanish": Vanish, "away": Away}


def options_of(rng: Random) -> Options:
    pick = rng.choice
    drift_ms = pick([None, 1_000, 10_000, 10_000, 10_000, 100_000, 1_000_000])
    aligned = rng.random() < 0.95
    future = pick(["ignore", "ignore", "hold"]) if aligned else "ignore"
    return Options(
        drift_ms=drift_ms if aligned else None,
        disorder_ms=pick([0, 0, 0, 4_000, 60_000]),
        idle_s=pick([5.0, 60.0]),
        future=future,
        skew_ms=pick([0, 10_000, 3_600_000]),
        late=pick(["admit", "admit", "catch-up"]) if aligned and drift_ms is not None else "admit",
        aligned=aligned,
        index=pick(["exact", "exact", "log", "payload"]),
        rows=pick([None, None, 1, 3, 20]),
        loses=rng.random() < 0.3,
        bounded=rng.random() < 0.3,
        members=2 if aligned and drift_ms is not None and rng.random() < 0.2 else 1,
        discovery_s=pick([0.0, 0.0, 30.0]),
        stop=pick([None] * 12 + [2, 8]),
        watermarks=rng.random() < 0.9,
    )


def hourly_options_of(rng: Random) -> Options:
    """Return options of queries that run every hour, most of them the defaults."""
    pick = rng.choice
    members = pick([1, 1, 2, 2, 3])
    return Options(
        drift_ms=pick([600_000, 3_600_000, 3_600_000, 14_400_000]),
        disorder_ms=pick([0, 0, 60_000]),
        idle_s=pick([60.0, 60.0, 5_400.0, 5_400.0]),
        skew_ms=3_600_000,
        index=pick(["exact", "log", "payload"]),
        rows=pick([None, None, None, 5]),
        bounded=True,
        members=members,
        joint=members > 1 and rng.random() < 0.5,
        discovery_s=30.0,
    )


class _Maker:
    """Makes the steps of one world, one after the other."""

    def __init__(self, rng: Random, options: Options) -> None:
        self.rng, self.options = rng, options
        self.wall_ms = WALL_MS
        self.greatest: dict[str, int] = {}
        self.lags: dict[str, int | None] = {}  # of splits at the live edge
        self.wants_odd = self.rng.random() < 0.5

    def records(self, split: str, most: int) -> tuple[Record, ...]:
        rng, made = self.rng, []
        lag_ms = self.lags[split]
        if lag_ms is not None:
            self.greatest[split] = max(self.greatest[split], self.wall_ms - lag_ms)
        for _ in range(rng.randint(1, most)):
            kind = rng.random() if self.wants_odd else 1.0
            if kind < 0.07:
                ahead_ms = rng.choice([1, 5_000, 60_000, 10**9])
                made.append(Record(self.wall_ms + self.options.skew_ms + ahead_ms))
            elif kind < 0.12:
                made.append(Record(rng.choice([None, -5])))
            elif kind < 0.15:
                behind_ms = self.options.disorder_ms + rng.choice([1, 5_000, 1_000_000])
                made.append(Record(max(0, self.greatest[split] - behind_ms)))
            elif kind < 0.22 and self.options.index == "log":
                made.append(Record(self.wall_ms, is_marker=True))
            else:
                gap_ms = rng.choice(GAPS_MS) if lag_ms is None else rng.choice((0, 1, 1_000))
                self.greatest[split] = min(self.greatest[split] + gap_ms, self.wall_ms)
                back_ms = rng.choice([0, 0, rng.randint(0, self.options.disorder_ms), self.options.disorder_ms])
                made.append(Record(max(0, self.greatest[split] - back_ms)))
        return tuple(made)

    def new_split(self) -> Append:
        rng = self.rng
        letter = rng.choice("abc"[: self.options.members])
        split = f"{letter}{len(self.greatest)}"
        self.greatest[split] = rng.choice(BEGINS_MS)
        self.lags[split] = rng.choice([None, None, 0, 0, 5_000, 200_000, 3_000_000])
        if rng.random() < 0.1:
            return Append(split, ())
        return Append(split, self.records(split, rng.choice([1, 8, 8, 30])))

    def step(self) -> list[object]:
        """Return the next steps: mostly one, sometimes several that belong together."""
        rng = self.rng
        split = rng.choice(sorted(self.greatest))
        member = rng.randrange(self.options.members)
        (what,) = rng.choices([*WEIGHTS], [*WEIGHTS.values()])
        steps: object = OF_A_SPLIT[what](split) if what in OF_A_SPLIT else getattr(self, what)(split, member)
        return steps if isinstance(steps, list) else [steps]

    def batches(self, split: str, member: int) -> object:
        return Batches(member, self.rng.choice([1, 1, 2, 4, 50]))

    def append(self, split: str, member: int) -> object:
        return Append(split, self.records(split, 6))

    def live(self, split: str, member: int) -> object:
        """Time goes on for all who write now."""
        passed = self.passed(self.rng.choice([1.0, 3.0, 30.0]))
        writing = [s for s in sorted(self.greatest) if self.lags[s] is not None and self.rng.random() < 0.8]
        return [passed, *(Append(s, self.records(s, 3)) for s in writing), Batches(member, 50)]

    def passing(self, split: str, member: int) -> object:
        return self.passed(self.rng.choice([0.2, 3.0, 6.0, 31.0, 61.0, 100.0, 4_000.0]))

    def crash(self, split: str, member: int) -> object:
        rng = self.rng
        after = rng.choice(["plan", "log", "log", "read", "commit"])
        crash = Crash(member, after, rng.random() < 0.3)
        return [crash, self.passed(rng.choice([1.0, 61.0, 4_000.0]))] if rng.random() < 0.5 else crash

    def another(self, split: str, member: int) -> object:
        return self.new_split() if len(self.greatest) < MOST_SPLITS else []

    def meanwhile(self, split: str, member: int) -> object:
        return Meanwhile(Append(split, self.records(split, 4)))

    def trim(self, split: str, member: int) -> object:
        trim = Trim(split, self.rng.randint(1, 8))
        return Meanwhile(trim) if self.rng.random() < 0.3 else trim

    def recreate(self, split: str, member: int) -> object:
        self.greatest[split] = self.rng.choice([self.greatest[split], self.rng.choice(BEGINS_MS)])
        return Recreate(split, self.records(split, 6))

    def elect(self, split: str, member: int) -> object:
        return Elect(split, self.rng.choice([1, 1, 3, 10]), self.records(split, 6))

    def adjust(self, split: str, member: int) -> object:
        return Pass(0.0, self.rng.choice([-3.0, -100.0] if self.options.future == "hold" else [20.0]))

    def passed(self, seconds: float) -> Pass:
        self.wall_ms += int(seconds * 1000)
        return Pass(seconds)


class _HourlyMaker(_Maker):
    """Makes the steps of jobs that run every hour, while producers write in bursts between the runs."""

    def __init__(self, rng: Random, options: Options) -> None:
        super().__init__(rng, options)
        self.wants_odd = rng.random() < 0.2
        self.jobs = 1 if options.joint else options.members
        self.rarely_writes = rng.random() < 0.5

    def new_split(self) -> Append:
        """Make a split with an hour of history, which trails behind the present by as much as always."""
        rng = self.rng
        split = f"{rng.choice('abc'[: self.options.members])}{len(self.greatest)}"
        self.lags[split] = rng.choice([0, 0, 300_000, 10_800_000, 43_200_000])
        self.greatest[split] = self.wall_ms - self.lags[split] - 3_600_000
        return Append(split, self.burst(split))

    def burst(self, split: str) -> tuple[Record, ...]:
        """Return the records of the time since the last burst, up to the present less the split's lag."""
        if self.wants_odd and self.rng.random() < 0.5:
            return self.records(split, 6)
        count, begin_ms = self.rng.randint(1, 8), self.greatest[split]
        step_ms = max(0, self.wall_ms - self.lags[split] - begin_ms) // count
        self.greatest[split] = begin_ms + count * step_ms
        back_ms = self.options.disorder_ms
        times = [begin_ms + number * step_ms for number in range(1, count + 1)]
        return tuple(Record(max(0, at_ms - self.rng.choice([0, 0, back_ms]))) for at_ms in times)

    def hour(self) -> list[object]:
        """Return the steps of an hour: time passes, producers write, time passes, the jobs run."""
        rng, steps = self.rng, []
        gap_s = rng.choice([600.0, 3_600.0, 3_600.0, 3_600.0, 43_200.0])
        steps.append(self.passed(gap_s - 120))
        if rng.random() < 0.08 and len(self.greatest) < MOST_SPLITS:
            steps.append(self.new_split())
        quiet = 0.3 if self.rarely_writes else 0.03
        steps += [Append(s, self.burst(s)) for s in sorted(self.greatest) if rng.random() > quiet]
        jump_s = rng.choice([7_200.0, -7_200.0]) if rng.random() < 0.25 else 0.0
        steps.append(self.passed(120.0)._replace(wall_s=jump_s))
        if rng.random() < 0.05 and self.jobs < 4:
            steps.append(Copy(rng.randrange(self.jobs)))
            self.jobs += 1
        killed = (rng.choice([0, 1, 2]), rng.choice(["plan", "log", "read", "commit"])) if rng.random() < 0.1 else None
        jobs = tuple(rng.sample(range(self.jobs), self.jobs))
        steps.append(Runs(jobs, at_once=rng.random() < 0.5, killed=killed))
        if rng.random() < 0.15:  # one is started again
            steps += [self.passed(rng.choice([5.0, 300.0])), Runs(jobs[:1], at_once=False, killed=None)]
        if jump_s:
            steps.append(Pass(0.0, -jump_s))
        return steps


def make(seed: int) -> World:
    """Make up a world; the same seed makes the same one."""
    rng = Random(seed)
    if rng.random() < 0.4:
        return _hourly(seed, rng)
    maker = _Maker(rng, options_of(rng))
    steps: list[object] = [maker.new_split() for _ in range(maker.rng.randint(1, 4))]
    for _ in range(maker.rng.randint(4, 30)):
        steps += maker.step()
    return World(seed, maker.options, tuple(steps))


def _hourly(seed: int, rng: Random) -> World:
    maker = _HourlyMaker(rng, hourly_options_of(rng))
    steps: list[object] = [maker.new_split() for _ in range(rng.randint(2, 5))]
    for _ in range(rng.randint(3, 12)):
        steps += maker.hour()
    return World(seed, maker.options, tuple(steps))


def shortened(world: World, fails: Callable[[World], bool]) -> World:
    """Return a shorter world that also fails, by leaving out steps, records and options one by one."""
    size = len(world.steps)
    while size:
        at = 0
        while at < len(world.steps):
            tried = world._replace(steps=world.steps[:at] + world.steps[at + size :])
            if fails(tried):
                world = tried
            else:
                at += size
        size //= 2
    for tried in _simpler(world):
        candidate = tried(world)
        if candidate is not None and candidate != world and fails(candidate):
            world = candidate
    return world


def _simpler(world: World) -> Iterator[Callable[[World], World | None]]:
    for name, value in Options()._asdict().items():
        yield lambda w, name=name, value=value: w._replace(options=w.options._replace(**{name: value}))
    for number in range(len(world.steps)):
        for record in range(40, -1, -1):
            yield lambda w, number=number, record=record: _without(w, number, record)


def _without(world: World, number: int, record: int) -> World | None:
    step = world.steps[number]
    if isinstance(step, Batches) and step.count > 1 and not record:
        step = step._replace(count=1)
    elif isinstance(step, (Append, Recreate, Elect)) and record < len(step.records):
        step = step._replace(records=step.records[:record] + step.records[record + 1 :])
    else:
        return None
    return world._replace(steps=(*world.steps[:number], step, *world.steps[number + 1 :]))
