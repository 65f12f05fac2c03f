"""A query without Spark: it calls a coordinator exactly as Spark's MicroBatchExecution does, on a clock of its own.

An offset is logged before its batch is read, and a batch is committed after it.  A new run reads the
last batch that was logged and not committed again, and only then plans.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, cycle

from tidegate.add_ons import INITIAL_OFFSET, UNLIMITED, Budget, Clocks, Driver, SourceCoordinator, coordinator_of
from tidegate.conformance.harness import Ability, Row
from tidegate.conformance.lab.base import WaitedError
from tidegate.conformance.lab.explain import difference, listed, ordered_difference
from tidegate.conformance.lab.lab import Lab
from tidegate.connector import Json, ReadTask, Source

_WALL_S = 1_767_225_600.0 + 30 * 86_400  # wall clocks begin 30 days after the first event time
_TICK_S = 0.001  # with each look
_MOST_BATCHES = 1_000
_PAUSE_S = 0.01  # of real time, for background work of a connector; the query has a clock of its own


class LabClock:
    """Seconds that pass when someone sleeps, and a little whenever someone looks: no two looks see the same time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    @property
    def clocks(self) -> Clocks:
        """The clocks for a coordinator."""
        return Clocks(self._look, lambda: _WALL_S + self._look(), self.sleep)

    def _look(self) -> float:
        self.now_s += _TICK_S
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that was read.

    keys: of its rows, in the order of its tasks.
    """

    number: int
    start: Json
    end: Json
    keys: list[str]

    @property
    def watermark_ms(self) -> int | None:
        """The source's watermark at its end."""
        value: int | None = self.end.get("watermark")
        return value


@dataclass
class Query:
    """One query with its checkpoint, started and ended again and again."""

    lab: Lab
    source: Source
    clock: LabClock = field(default_factory=LabClock)
    cores: int = 2
    offsets: list[str] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    run: SourceCoordinator | None = None

    def start(self, *, bounded: bool = False, source: Source | None = None) -> None:
        """Begin a run, and repeat a batch that the last run did not commit."""
        if source is not None:
            self.source = source
        self.lab.tell("start the query" + (" with Trigger.AvailableNow" if bounded else ""))
        driver = Driver(self.cores, "conformance")
        opened = coordinator_of(self.source.as_stream(), driver, clocks=self.clock.clocks)
        self.lab.at_close(opened.close)
        self.run = opened
        if bounded:
            opened.bound_run()
        if len(self.offsets) > len(self.batches):
            self.commit(self.read())

    def crash(self) -> None:
        """Drop the run without closing it, as SIGKILL does; the checkpoint stays."""
        self.lab.tell("kill the planner")
        self.run = None

    def stop(self) -> None:
        """End the run regularly."""
        self.lab.tell("stop the query")
        if self.run is not None:
            self.run.close()
        self.run = None

    @property
    def running(self) -> SourceCoordinator:
        """The present run."""
        if self.run is None:
            self.start()
        assert self.run is not None  # noqa: S101 - start() has just set it
        return self.run

    @property
    def last_offset(self) -> Json:
        """The offset that was logged last, as a restart finds it."""
        return _parsed(self.offsets[-1]) if self.offsets else dict(INITIAL_OFFSET)

    def plan(self, budget: Budget = UNLIMITED) -> bool:
        """Plan a batch and log its offset; False: there is nothing to do."""
        run = self.running
        start = self.last_offset
        text = json.dumps(run.latest_offset(start, budget))
        if self.offsets and text == self.offsets[-1]:
            return False
        self.offsets.append(text)
        return True

    def read(self) -> Batch:
        """Read the batch that was logged last."""
        end = self.last_offset
        start = _parsed(self.offsets[-2]) if len(self.offsets) > 1 else dict(INITIAL_OFFSET)
        keys = [key for task in self.running.tasks(start, end) for key in self._keys_of(task, end)]
        self.lab.tell(f"batch {len(self.offsets) - 1}: {listed(keys) or 'no rows'}")
        return Batch(len(self.offsets) - 1, start, end, keys)

    def commit(self, batch: Batch) -> None:
        """Note that a batch is written."""
        self.batches.append(batch)

    def step(self, budget: Budget = UNLIMITED) -> Batch | None:
        """Plan, read and commit a batch."""
        if not self.plan(budget):
            return None
        batch = self.read()
        self.commit(batch)
        return batch

    def steps(self) -> Iterator[Batch]:
        """Yield batches until there is nothing to do; raises ConformanceError if they never end."""
        for _ in range(_MOST_BATCHES):
            batch = self.step()
            if batch is None:
                return
            yield batch
        raise self.lab.fail(
            f"the query makes one batch after the other, {_MOST_BATCHES:,} by now, though nothing comes"
        )

    def process_all(self) -> None:
        """Make batches until there is nothing to do."""
        for _ in self.steps():
            pass

    def pass_time(self, seconds: float) -> None:
        """Let time pass on the query's clock, and make the batches that follow."""
        self.lab.tell(f"{seconds:g} s pass")
        self.clock.sleep(seconds)
        self.process_all()

    def run_until(self, condition: Callable[[], object], complaint: str, *budgets: Budget) -> None:
        """Make batches of these budgets in turn until a condition holds; raise ConformanceError if rows end before."""
        limits = cycle(budgets or [UNLIMITED])
        begun = time.monotonic()
        while not condition():
            batch = self.step(next(limits))
            if batch is not None and batch.keys:
                begun = time.monotonic()
            elif self.lab.is_over(begun):
                raise WaitedError(f"{complaint} (waited {self.lab.patience_s:g} s)\n{self.missing() or ''}".rstrip())
            elif batch is None:
                time.sleep(_PAUSE_S)  # the planner's clock is virtual, but the system that it asks needs real time

    def run_until_read(self, rows: Iterable[Row], *budgets: Budget) -> None:
        """Make batches, each with the next of the budgets, until some rows are all delivered."""
        wanted = {row.key for row in rows}
        complaint = f"{len(wanted)} rows were written and not all delivered"
        self.run_until(lambda: wanted <= set(self.delivered), complaint, *budgets)

    @property
    def delivered(self) -> list[str]:
        """The keys of all rows of committed batches, in order."""
        return [key for batch in self.batches for key in batch.keys]

    def missing(self) -> str | None:
        """Return a description of the written rows that are missing, doubled or out of order."""
        # Rows of one position may be sorted by time against other positions of the split.
        in_order = self.lab.can(Ability.ROW_POSITIONS)
        return difference(self.lab.written, self.delivered, in_order=in_order)

    def expect_same(self, first: Batch, second: Batch, what: str) -> None:
        """Raise ConformanceError unless two readings of a batch gave the same rows, each split in the same order."""
        # Tasks may come in another order.  Within a split, see missing().
        by = _split_of if self.lab.can(Ability.ROW_POSITIONS) else None
        self.lab.refuse(ordered_difference(what, sorted(first.keys, key=by), sorted(second.keys, key=by)))

    def _keys_of(self, task: ReadTask, end: Json) -> list[str]:
        return self.lab.keys(self.source.reader(end.get("enumerator")).read(task))


def _split_of(key: str) -> str:
    return key.partition("#")[0]


def _parsed(text: str) -> Json:
    offset: Json = json.loads(text)
    return offset


def dropped(
    splits: Mapping[int, Sequence[str]], times: Mapping[str, int], batches: Iterable[Batch], out_of_orderness_ms: int
) -> str | None:
    """Complain about the first batch with rows in order that Spark's own watermark drops, by brute force.

    splits: the keys of each split, in the order of their positions.
    times: the event time in ms of every row to align by, and of no other.

    Spark's watermark is the greatest event time that was delivered, less a delay, here the out-of-orderness.  A batch
    loses rows at or before the watermark of the previous batch (Spark's default), or at or before its own, with
    ``spark.sql.streaming.statefulOperator.allowMultiple=false``.  Both depend on earlier batches alone.
    """
    in_order = set(_in_order(splits, times, out_of_orderness_ms))
    own_ms: int | None = None
    before_ms: int | None = None
    for batch in batches:
        for whose, watermark in (("of the batch before", before_ms), ("of the batch itself", own_ms)):
            dropped_keys = [
                key for key in batch.keys if watermark is not None and times.get(key, watermark + 1) <= watermark
            ]
            lost = [key for key in dropped_keys if key in in_order]
            if lost and watermark is not None:
                return (
                    f"Spark drops {listed(lost)} of batch {batch.number}: by the watermark {whose}, {lost[0]} is "
                    f"late by {watermark - times[lost[0]]:,} ms; that is the greatest earlier time less "
                    f"{out_of_orderness_ms:,} ms"
                )
        greatest_ms = max((times[key] - out_of_orderness_ms for key in batch.keys if key in times), default=own_ms)
        before_ms, own_ms = own_ms, greatest_ms if own_ms is None or greatest_ms is None else max(own_ms, greatest_ms)
    return None


def _in_order(splits: Mapping[int, Sequence[str]], times: Mapping[str, int], out_of_orderness_ms: int) -> Iterator[str]:
    for keys in splits.values():
        counted = [key for key in keys if key in times]
        greatest = accumulate((times[key] for key in counted), max)
        yield from (
            key for key, most_ms in zip(counted, greatest, strict=True) if times[key] >= most_ms - out_of_orderness_ms
        )
