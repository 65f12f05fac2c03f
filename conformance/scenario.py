"""Runs a life of a query step by step, and judges each step by every row; a failure prints code to repeat it.

    scenario = Scenario(OutboxHarness, max_drift_s=10)
    scenario.new_split(0, 5, 5)
    scenario.batch()
    scenario.crash()
    scenario.end()

Nothing here shares code with the planner.  The judge knows every row that was ever written, keeps plain sets of
delivered rows, and reads offsets as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from types import TracebackType

from typing_extensions import Self

from tidegate.alignment.budget import Budget
from tidegate.conformance.abilities import Ability
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.harness import HarnessFactory, Row
from tidegate.conformance.lab.explain import difference, told
from tidegate.conformance.lab.lab import BEGIN_MS, PATIENCE_S, SECOND_MS, Lab, Split
from tidegate.conformance.lab.query import Batch, Query

IDLE_S = 50.0
"""How long a split has nothing to read before it is idle: less than the minute that a bounded run waits for it."""

_SEEN_S = 1.0  # of the query's clock between two discoveries
_IDLE_ROUNDS = 4  # at the end: splits may become idle one after the other
_NEVER = -(10**18)


class Scenario:
    """One life of a query, over splits that change.

    max_drift_s: for alignment; None: unaligned.
    out_of_orderness_s: how far rows may be behind earlier rows of their split; ``append`` obeys it.

    Every method is a step.  It raises ConformanceError if the connector goes wrong, with the steps that led to it.
    Closed by ``end``, or as a context manager.
    """

    def __init__(
        self,
        harness: HarnessFactory,
        max_drift_s: int | None = None,
        out_of_orderness_s: int = 0,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.lab = Lab(harness, patience_s)
        arguments = [getattr(harness, "__name__", "harness")]
        arguments += [f"max_drift_s={max_drift_s}"] * (max_drift_s is not None)
        arguments += [f"out_of_orderness_s={out_of_orderness_s}"] * (out_of_orderness_s > 0)
        self.script = [f"scenario = Scenario({', '.join(arguments)})"]
        self._drift_ms = None if max_drift_s is None else max_drift_s * SECOND_MS
        self._disorder_ms = out_of_orderness_s * SECOND_MS
        options = {"idleTimeout": f"{IDLE_S:g} seconds", "failOnDataLoss": "false"}
        options |= {} if max_drift_s is None else {"maxDrift": f"{max_drift_s} seconds"}
        options |= {"maxOutOfOrderness": f"{out_of_orderness_s} seconds"}
        with ExitStack() as on_error:
            on_error.push(self.lab)
            self._query = Query(self.lab, self.lab.source(**options))
            on_error.pop_all()
        self._unread: dict[str, Row] = {}
        self._lost: set[str] = set()
        self._removed: set[int] = set()
        self.finished: set[int] = set()
        self._behind: set[int] = set()
        self._grown_at_s: dict[int, float] = {}
        self._watermark_ms = _NEVER
        self.happened: set[str] = set()

    @classmethod
    def of(cls, lab: Lab, *, max_drift_s: int | None, out_of_orderness_s: int = 0) -> Self:
        """Begin a life for a rule, with a harness of its own."""
        return cls(lab.make, max_drift_s, out_of_orderness_s, patience_s=lab.patience_s)

    @property
    def there(self) -> list[int]:
        """The splits that were not deleted."""
        return [split.number for split in self.lab.splits if split.number not in self._removed]

    @property
    def started(self) -> bool:
        """Whether a batch was planned."""
        return bool(self._query.offsets)

    # What happens to the data.

    def new_split(self, *gaps_s: int) -> None:
        """Make a split with rows at the sums of the gaps, in seconds."""
        with self._step("new_split", *gaps_s):
            split = self.lab.split()
            self._append(split, list(accumulate(gaps_s)))
            self._query.clock.sleep(_SEEN_S)

    def append(self, split: int, *gaps_s: int) -> None:
        """Append rows to a split, each by a gap in seconds after the greatest before it, or before it if negative."""
        with self._step("append", split, *gaps_s):
            target = self.lab.splits[split]
            most_s = max((self._second(row) for row in target.rows), default=0)
            times = []
            for gap_s in gaps_s:
                times.append(most_s + max(gap_s, -self._disorder_ms // SECOND_MS))
                most_s = max(most_s, times[-1])
            self._append(target, times)
            self._query.clock.sleep(_SEEN_S)

    def finish(self, split: int) -> None:
        """Complete a split; not for the second time."""
        if split in self.finished:
            return
        with self._step("finish", split):
            self.finished.add(split)
            self.lab.splits[split].finish()

    def trim(self, split: int, count: int) -> None:
        """Delete the first rows that are left of a split; unread ones are lost."""
        with self._step("trim", split, count):
            target = self.lab.splits[split]
            trimmed = min(len(target.rows), target.trimmed + count)
            self._lose(target.rows[:trimmed])
            target.trim(trimmed)

    def remove(self, split: int) -> None:
        """Delete a split; its unread rows are lost."""
        with self._step("remove", split):
            target = self.lab.splits[split]
            self._lose(target.rows)
            target.remove()
            self._removed.add(split)
            self._query.clock.sleep(_SEEN_S)

    # What happens to the query.

    def batch(self, rows: int | None = None) -> None:
        """Plan, read and commit a batch, with a limit of rows."""
        with self._step("batch", *([] if rows is None else [rows])):
            batch = self._query.step(Budget(rows=rows))
            if batch is not None:
                self._judge_limit(batch, rows)
                self._judge(batch)

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        with self._step("wait", seconds):
            self._query.clock.sleep(seconds)

    def crash(self) -> None:
        """Kill the planner after a batch was committed, and start it again."""
        with self._step("crash"):
            self._query.crash()
            self._query.start()
            self.happened.add("a crash after a commit")

    def crash_before_the_commit(self) -> None:
        """Plan a batch and read it, kill the planner, start it again: the batch is read once more, and committed."""
        with self._step("crash_before_the_commit"):
            planned = self._query.plan()
            first = self._query.read() if planned else None
            self._query.crash()
            self._query.start()
            if first is not None:
                self._query.expect_same(first, self._query.batches[-1], "a batch that was logged, read after a crash")
                self._judge(self._query.batches[-1])
                self.happened.add("a batch read again")

    def available_now(self) -> None:
        """End the run, and read all present rows with Trigger.AvailableNow."""
        with self._step("available_now"):
            self._query.stop()
            self._query.start(bounded=True)
            for batch in self._query.steps():
                self._judge(batch)
            self._query.stop()
            self._expect_all_read("when a run with Trigger.AvailableNow ends")
            self.happened.add("a bounded run")

    def resize(self, cores: int) -> None:
        """End the run, and start it with another number of cores."""
        with self._step("resize", cores):
            self._query.stop()
            self._query.cores = cores
            self._query.start()

    def end(self) -> None:
        """Read all remaining rows, judge that they all came, and close everything."""
        with self.lab, self._step("end"):
            self._settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.lab.__exit__(kind, error, traceback)

    # How it is judged.

    def _settle(self) -> None:
        for _ in range(_IDLE_ROUNDS):
            for batch in self._query.steps():
                self._judge(batch)
            self._query.clock.sleep(IDLE_S + 1)
        self._expect_all_read("at the end, when all others are idle")
        there = [self.lab.splits[number] for number in self.there]
        # Without a time index, a connector may find the last row of a split rather than the greatest time.
        first = 0 if self.lab.can(Ability.TIME_INDEX) else -1
        times = [row.event_time_ms or 0 for split in there for row in split.rows[split.trimmed :][first:]]
        if times and self._watermark_ms < max(times) - self._disorder_ms - 1:
            raise self.lab.fail(
                "everything is read and idle, but the greatest event time is "
                f"{_behind(self._watermark_ms, max(times))} the watermark"
            )

    def _judge(self, batch: Batch) -> None:
        self._judge_bound(batch)
        for key in batch.keys:
            self._unread.pop(key, None)
        self._judge_delivery()
        self._judge_watermark(batch)

    def _judge_limit(self, batch: Batch, rows: int | None) -> None:
        if rows is not None and self.lab.can(Ability.ROW_POSITIONS) and self.lab.can(Ability.COUNTED_POSITIONS):
            number = len(batch.keys)
            self.lab.expect(number <= rows, f"batch {batch.number} has {number} rows, but {rows} are allowed")

    def _judge_bound(self, batch: Batch) -> None:
        if self._drift_ms is None or not batch.keys:
            return
        before_ms = batch.start.get("watermark", _NEVER)
        heads = self._heads()
        # A split behind the watermark is read at once, and holds back no other; a split of the source may hold several
        # of ours.
        if min(heads.values(), default=0) <= before_ms and not self.lab.can(Ability.ROW_POSITIONS):
            return
        low_ms = min((at for at in heads.values() if at > before_ms), default=before_ms + 1)
        # Rows out of order may pass a cut by probing by this much.
        bound_ms = max(low_ms + self._drift_ms, batch.start.get("bound", _NEVER)) + self._disorder_ms
        beyond = [key for key in batch.keys if key in self._unread and self._counts_at(key) >= bound_ms]
        if beyond:
            raise self.lab.fail(
                f"batch {batch.number} reads {beyond[0]}, {_behind(bound_ms, self._counts_at(beyond[0]))} the bound: "
                "it should have been paused"
            )
        if any(key not in batch.keys and self._counts_at(key) >= bound_ms for key in self._unread):
            self.happened.add("a pause")

    def _judge_delivery(self) -> None:
        delivered = self._query.delivered
        expected = {
            split.number: [row.key for row in split.rows if row.key not in self._lost and row.key not in self._unread]
            for split in self.lab.splits
        }
        # Rows that were deleted after they were planned may come or not.
        kept = [key for key in delivered if key not in self._lost]
        wrong = difference(expected, kept, in_order=self.lab.can(Ability.ROW_POSITIONS))
        if wrong is None and len(set(delivered)) < len(delivered):
            wrong = "a row that was deleted meanwhile came twice"
        if wrong is not None:
            raise self.lab.fail(wrong)

    def _judge_watermark(self, batch: Batch) -> None:
        before_ms, after_ms = self._watermark_ms, batch.end.get("watermark", _NEVER)
        if after_ms < before_ms:
            raise self.lab.fail(f"batch {batch.number}: the watermark goes back by {before_ms - after_ms} ms")
        late = self._late()
        self._watermark_ms = after_ms
        if after_ms == before_ms:
            return
        holding = [key for key, row in self._unread.items() if row.split not in late]
        passed = [key for key in holding if before_ms < self._counts_at(key) <= after_ms]
        if passed:
            raise self.lab.fail(
                f"batch {batch.number}: the watermark passes {passed[0]}, which is there and not read: it will be late"
            )

    def _expect_all_read(self, when: str) -> None:
        if self._unread:
            keys = list(self._unread)
            raise self.lab.fail(f"{when}, {len(keys)} rows are not delivered: {', '.join(keys[:5])}")

    def _append(self, split: Split, seconds: list[int]) -> None:
        if not seconds:
            return
        holds, now_s = self._holds(split), self._query.clock.now_s
        rows = split.append_each(*(BEGIN_MS + second * SECOND_MS for second in seconds))
        self._unread |= {row.key: row for row in rows}
        self._grown_at_s[split.number] = now_s
        late = [row.key for row in rows if (row.event_time_ms or 0) <= self._watermark_ms]
        if late and holds:
            raise self.lab.fail(
                f"{late[0]} comes in order in a split that is not idle, and is late already: the watermark has not "
                "waited for its split"
            )
        # A split that did not hold the watermark may have come so close to it that its next rows in order are late,
        # too.
        greatest_ms = max(row.event_time_ms or 0 for row in split.rows)
        near = not holds and greatest_ms - self._disorder_ms <= self._watermark_ms
        self._behind |= {split.number} if late or near else set()

    def _heads(self) -> dict[int, int]:
        """Return the event time, in ms, of the first unread row of each split that has one."""
        heads: dict[int, int] = {}
        for key, row in self._unread.items():
            heads.setdefault(row.split, self._counts_at(key))
        return heads

    def _late(self) -> set[int]:
        """Return the splits that came, or woke, behind the watermark and have not caught up: they do not hold it."""
        late = {split for split, at_ms in self._heads().items() if at_ms <= self._watermark_ms} & self._behind
        # A split of the source may hold several of ours.
        return set(self._heads()) if late and not self.lab.can(Ability.ROW_POSITIONS) else late

    def _holds(self, split: Split) -> bool:
        """Return whether the watermark must not pass the last row of a split."""
        is_idle = self._query.clock.now_s - self._grown_at_s.get(split.number, -IDLE_S) >= IDLE_S
        has_rows = split.trimmed < len(split.rows)
        seen = not any(row.key in self._unread for row in split.rows)
        may_grow = self.lab.can(Ability.GROWING_SPLITS) and has_rows and seen
        return may_grow and not is_idle and split.number not in self._behind

    def _lose(self, rows: list[Row]) -> None:
        for row in rows:
            if self._unread.pop(row.key, None) is not None:
                self._lost.add(row.key)

    def _counts_at(self, key: str) -> int:
        return self._unread[key].event_time_ms or 0

    @staticmethod
    def _second(row: Row) -> int:
        return ((row.event_time_ms or 0) - BEGIN_MS) // SECOND_MS

    @contextmanager
    def _step(self, name: str, *arguments: int) -> Iterator[None]:
        self.script.append(f"scenario.{name}({', '.join(map(str, arguments))})")
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a connector raises is told, sys.exit() as well
            cause = None if isinstance(error, ConformanceError) else error
            raise ConformanceError(f"{told(error, __file__)}\n\n{self._pasted()}") from cause

    def _pasted(self) -> str:
        lines = [f"from {__name__} import {type(self).__name__}", "", *self.script]
        return "To see it again:\n\n" + "\n".join(f"    {line}".rstrip() for line in lines)


def _behind(earlier_ms: int, later_ms: int) -> str:
    if earlier_ms == _NEVER:
        return "forever past"
    return f"{(later_ms - earlier_ms) / SECOND_MS:g} s past" if later_ms != earlier_ms else "exactly at"
