"""What is in a life: options, splits with all their records, and steps, as data that can be printed and shortened.

Event times and clocks are in ms.  The wall clock begins at ``WALL_MS``, so times may lie before it and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support import logs as clocks

WALL_MS = 100_000_000
NEVER = -(10**18)
MOST_SLEEPS = 20_000  # in a step
LEASE_S = 60.0  # of members of a group


class Record(NamedTuple):
    """A position of a split.

    at_ms: its event time, perhaps unusable (None, negative) or in the future; of a marker, the clock's time.
    is_marker: a transaction marker: an entry of the time index, and no row.
    """

    at_ms: int | None
    is_marker: bool = False


class Options(NamedTuple):
    """The options of the query, or of both queries of a group.

    drift_ms, disorder_ms, idle_s: maxDrift, maxOutOfOrderness, idleTimeout.
    future, skew_ms: futureEventTime, maxFutureSkew.
    late: lateSplits.
    index: "exact" finds records by their event times.  "log" is Kafka's: it also finds markers, and records whose times
        are ignored.  "payload": there is none, so event times are probed.
    rows: the limit of a batch.
    loses: failOnDataLoss is false, and records are deleted before they are read.
    bounded: all runs are AvailableNow.
    stop: the configured end of each split.
    watermarks: the source has a watermark.
    members: sources in the alignment group; 1: there is none.
    joint: they are sources of one query; else each has a query of its own.
    """

    drift_ms: int | None = None
    disorder_ms: int = 0
    idle_s: float = 60.0
    future: str = "ignore"
    skew_ms: int = 10_000
    late: str = "admit"
    aligned: bool = True
    index: str = "exact"
    rows: int | None = None
    loses: bool = False
    bounded: bool = False
    members: int = 1
    joint: bool = False
    discovery_s: float = 0.0
    stop: int | None = None
    watermarks: bool = True

    def __str__(self) -> str:
        default = Options()
        return ", ".join(f"{n}={v!r}" for n, v in self._asdict().items() if v != getattr(default, n)) or "default"


class Append(NamedTuple):
    """Write records; the first ones create the split."""

    split: str
    records: tuple[Record, ...]

    def __str__(self) -> str:
        return f"append {self.split}: {shown(self.records)}"


class Recreate(NamedTuple):
    """Delete the topic, and create it anew with other records under the same name."""

    split: str
    records: tuple[Record, ...]

    def __str__(self) -> str:
        return f"recreate {self.split}: {shown(self.records)}"


class Elect(NamedTuple):
    """An unclean election takes back the last records, and others come in their places."""

    split: str
    lost: int
    records: tuple[Record, ...]

    def __str__(self) -> str:
        return f"take back {self.lost} of {self.split}, append: {shown(self.records)}"


class Trim(NamedTuple):
    """Retention deletes the first records."""

    split: str
    count: int


class Transact(NamedTuple):
    """Open a transaction at the end, or close it."""

    split: str


class Vanish(NamedTuple):
    """Stop subscribing the split, or subscribe it again."""

    split: str


class Away(NamedTuple):
    """The split loses its leader, or has one again."""

    split: str


class Pass(NamedTuple):
    """Time passes; wall_s: the adjustment of the wall clock beside that."""

    seconds: float
    wall_s: float = 0.0


class Meanwhile(NamedTuple):
    """A step that happens within the next plan of anybody, after it has asked for the extents."""

    step: Append | Trim

    def __str__(self) -> str:
        return f"within the next plan: {self.step}"


class Batches(NamedTuple):
    """Trigger up to a number of batches of a job: a query, of one source or of all of a group."""

    job: int
    count: int


class Crash(NamedTuple):
    """Begin a batch, kill the query after a phase of it, and start it anew.

    after: "plan", "log", "read" or "commit".
    bounded: the next run is AvailableNow.
    """

    job: int
    after: str
    bounded: bool = False


class Runs(NamedTuple):
    """Run jobs to their ends (AvailableNow), as people do every hour.

    at_once: they make a batch each by turns; else one runs after the other.
    killed: after so many batches, and that phase of the next one, the first of them is killed.
    """

    jobs: tuple[int, ...]
    at_once: bool = False
    killed: tuple[int, str] | None = None


class Copy(NamedTuple):
    """Copy the checkpoint of a job between two runs (blue/green): both go on."""

    job: int


class World(NamedTuple):
    """A life before it is lived."""

    seed: int
    options: Options
    steps: tuple[object, ...]

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}: {self.options}", *(f"  {step}" for step in self.steps)])


def shown(records: tuple[Record, ...]) -> str:
    return " ".join("marker" * r.is_marker or str(r.at_ms) for r in records)


@dataclass
class Log:
    """A split as it is now.

    incarnation: changes when the topic is created anew, or records are taken back.
    cuts: for each incarnation, the first position that may hold another record than in the one before.
    """

    incarnation: int = 0
    cuts: dict[int, int] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    begin: int = 0
    stable: int | None = None
    is_away: bool = False
    grown_at_s: float = 0.0

    @property
    def end(self) -> int:
        """The end of what may be read."""
        return len(self.records) if self.stable is None else self.stable


class Clock(clocks.Clock):
    """Clocks that also go on with steps.

    adjusted_s: of the wall clock.
    renew: lets all who live renew their notes, as their threads do.
    """

    begin_s = WALL_MS / 1000
    tick_s = 0.001
    sleeps = 0
    renewed_at = 0.0

    def __init__(self, renew: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.renew = renew

    @property
    def wall_ms(self) -> int:
        """What the wall clock shows, without a look at it."""
        return int((self.begin_s + self.now + self.adjusted_s) * 1000)

    @contextmanager
    def standing_at(self, wall_ms: int) -> Iterator[None]:
        """Let the clocks stand still at another time for a while."""
        before, tick_s = self.now, self.tick_s
        self.now, self.tick_s = (wall_ms + 0.5) / 1000 - self.begin_s - self.adjusted_s, 0.0
        try:
            yield
        finally:
            self.now, self.tick_s = before, tick_s

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.sleeps += 1
        assert self.sleeps < MOST_SLEEPS, "a plan waits for ever"
        if self.now - self.renewed_at >= LEASE_S / 4:
            self.renewed_at = self.now
            self.renew()


def counted_ms(record: Record, options: Options, now_ms: int) -> int | None:
    """Return the event time by which a row counts at a time, by the documentation of the options; None: by none."""
    if record.is_marker or record.at_ms is None or record.at_ms < 0:
        return None
    is_future = record.at_ms > now_ms + options.skew_ms
    return None if is_future and options.future == "ignore" else record.at_ms


class Present:
    """All splits as they are now.  Members of a group read splits of their own, by the first letter of the name."""

    def __init__(self, options: Options, renew: Callable[[], None]) -> None:
        self.options, self.clock = options, Clock(renew)
        self.latest_ms = WALL_MS  # that a wall clock has ever shown
        self.logs: dict[str, Log] = {}
        self.vanished: set[str] = set()
        self.meanwhile: list[Append | Trim] = []
        self.incarnations = 0

    def of(self, member: int) -> dict[str, Log]:
        """Return the splits that a member subscribes to."""
        letter = "abc"[member]
        return {s: log for s, log in self.logs.items() if s[0] == letter and s not in self.vanished}

    def happen(self, step: object) -> None:
        """Let something happen to the splits; steps about splits that do not exist do nothing."""
        clock = self.clock
        match step:
            case Append(split, records):
                log = self.logs.setdefault(split, Log())
                log.records += records
                log.grown_at_s = clock.now
            case Recreate() | Elect() if step.split in self.logs:
                self.put_in_place(step)
            case Trim(split, count) if split in self.logs:
                log = self.logs[split]
                log.begin = min(log.begin + count, log.end)
            case Transact(split) if split in self.logs:
                log = self.logs[split]
                if log.end < len(log.records):
                    log.grown_at_s = clock.now
                log.stable = len(log.records) if log.stable is None else None
            case Vanish(split) if split in self.logs:
                self.vanished ^= {split}
            case Away(split) if split in self.logs:
                self.logs[split].is_away ^= True
            case Pass(seconds, wall_s):
                clock.now += seconds
                self.latest_ms = max(self.latest_ms, clock.wall_ms)
                clock.adjusted_s += wall_s
                self.latest_ms = max(self.latest_ms, clock.wall_ms)
            case Meanwhile(within):
                self.meanwhile.append(within)
            case _:
                pass

    def put_in_place(self, step: Recreate | Elect) -> None:
        """Let a split hold other records, from its beginning or from a position on."""
        self.incarnations += 1
        before, kept = self.logs[step.split], 0
        log = Log(self.incarnations, records=[*step.records], grown_at_s=self.clock.now)
        if isinstance(step, Elect):
            kept = max(before.begin, len(before.records) - step.lost)
            log.begin, log.is_away, log.records[:0] = before.begin, before.is_away, before.records[:kept]
        log.cuts = {**before.cuts, self.incarnations: kept}
        self.logs[step.split] = log

    def happen_meanwhile(self) -> None:
        steps, self.meanwhile = self.meanwhile, []
        for step in steps:
            self.happen(step)

    def settle(self) -> None:
        """Remove everything that keeps records from being read."""
        self.happen_meanwhile()
        self.vanished.clear()
        for log in self.logs.values():
            log.stable, log.is_away = None, False
