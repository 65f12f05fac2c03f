"""One life of a query over splits that change, judged after each batch by every row that was ever written.

The judge shares no code with the planner: it keeps plain sets of delivered rows, and reads offsets as JSON.
"""

from __future__ import annotations

from tidegate.add_ons import UNLIMITED, Budget
from tidegate.conformance.harness import Ability, Row
from tidegate.conformance.lab.explain import difference
from tidegate.conformance.lab.lab import SECOND_MS, Lab, Split, after
from tidegate.conformance.lab.query import Batch, Query

IDLE_S = 50.0
"""How long a split has nothing to read before it is idle."""

_NEVER = -(10**18)


class Life:
    """A query over the splits of a lab.  Methods are steps, and raise ConformanceError if the connector goes wrong.

    drift_s: for alignment; None: unaligned.
    disorder_s: how far rows may be behind earlier rows of their split.
    """

    def __init__(self, lab: Lab, drift_s: int | None, disorder_s: int = 0) -> None:
        self.lab = lab
        self._drift_ms = None if drift_s is None else drift_s * SECOND_MS
        self.disorder_s, self._disorder_ms = disorder_s, disorder_s * SECOND_MS
        options = {"idleTimeout": f"{IDLE_S:g} seconds", "failOnDataLoss": "false"}
        options |= {} if drift_s is None else {"maxDrift": f"{drift_s} seconds"}
        self.query = Query(lab, lab.source(**options, maxOutOfOrderness=f"{disorder_s} seconds"))
        self.finished: set[int] = set()
        self.removed: set[int] = set()
        self._unread: dict[str, Row] = {}
        self._lost: set[str] = set()
        self._behind: set[int] = set()  # splits that came, or woke, at or behind the watermark
        self._grown_at_s: dict[int, float] = {}
        self._watermark_ms = _NEVER

    def append(self, split: Split, seconds: list[float]) -> None:
        """Append rows to a split, each by itself.  In order and in a split that holds the watermark, none is late."""
        holds = self._holds(split)
        rows = split.append_each(*after(*seconds))
        self._unread |= {row.key: row for row in rows}
        self._grown_at_s[split.number] = self.query.clock.now_s
        late = [row.key for row in rows if _time_of(row) <= self._watermark_ms]
        self.lab.expect(
            not (late and holds),
            f"{late[:1]} comes in order in a split that is not idle, and is late already: the watermark has not waited "
            "for its split",
        )
        # A split that did not hold the watermark may have come so close to it that its next rows are also late.
        greatest_ms = max(map(_time_of, split.rows), default=_NEVER)
        near = not holds and greatest_ms - self._disorder_ms <= self._watermark_ms
        self._behind |= {split.number} if late or near else set()

    def finish(self, split: Split) -> None:
        """Complete a split."""
        self.finished.add(split.number)
        split.finish()

    def trim(self, split: Split, count: int) -> None:
        """Delete the first rows that are left of a split; unread ones are lost."""
        trimmed = min(len(split.rows), split.trimmed + count)
        self._lose(split.rows[:trimmed])
        split.trim(trimmed)

    def remove(self, split: Split) -> None:
        """Delete a split; its unread rows are lost."""
        self._lose(split.rows)
        split.remove()
        self.removed.add(split.number)

    def batch(self, rows: int | None = None) -> None:
        """Plan, read and commit a batch, with a limit of rows."""
        batch = self.query.step(UNLIMITED if rows is None else Budget(rows=rows))
        if batch is None:
            return
        if rows is not None and self.lab.can(Ability.ROW_POSITIONS) and self.lab.can(Ability.COUNTED_POSITIONS):
            count = len(batch.keys)
            self.lab.expect(count <= rows, f"batch {batch.number} has {count} rows, but {rows} are allowed")
        self._judge(batch)

    def crash(self, *, committed: bool) -> None:
        """Kill the planner and start it again, perhaps between the reading of a batch and its commit."""
        query = self.query
        first = query.read() if not committed and query.plan() else None
        query.crash()
        query.start()
        if first is None:
            self.lab.saw("a crash after a commit")
            return
        query.expect_same(first, query.batches[-1], "a batch that was logged, read after a crash")
        self._judge(query.batches[-1])
        self.lab.saw("a batch read again")

    def run_bounded(self) -> None:
        """End the run, and make some with Trigger.AvailableNow: one leaves rows that a split holds back to the next."""
        for _ in range(1 + len(self.lab.splits)):
            self.query.stop()
            self.query.start(bounded=True)
            self._judge_all()
            if not self._unread:
                break
            self.query.clock.sleep(IDLE_S + 1)
        self.query.stop()
        self._expect_all_read("after several runs with Trigger.AvailableNow")
        self.lab.saw("a bounded run")

    def resize(self, cores: int) -> None:
        """End the run, and start it with another number of cores."""
        self.query.stop()
        self.query.cores = cores
        self.query.start()

    def end(self) -> None:
        """Read all remaining rows, and judge that they all came, and that no window waits for ever."""
        for _ in range(2 + len(self.lab.splits)):  # splits may become idle one after the other
            self._judge_all()
            self.query.clock.sleep(IDLE_S + 1)
        self._expect_all_read("at the end, when all others are idle")
        due_ms = self._due_ms(first=0)
        if self._watermark_ms < due_ms and not self._answers_latest():
            due_ms = self._due_ms(first=-1)
        self.lab.expect(
            self._watermark_ms >= due_ms,
            f"everything is read and idle, but the greatest time is {_past(self._watermark_ms, due_ms)} the watermark",
        )

    def _due_ms(self, first: int) -> int:
        """Return the watermark that is due once all is read.

        first: the index of the first row of each split that counts; -1: only the last row does.
        """
        there = [split for split in self.lab.splits if split.number not in self.removed]
        times = [_time_of(row) for split in there for row in split.rows[split.trimmed :][first:]]
        return max(times, default=_NEVER) - self._disorder_ms - 1

    def _answers_latest(self) -> bool:
        """Return whether latest() knows the time of each split with rows; else the planner takes that of a last row."""
        if not self.lab.can(Ability.TIME_INDEX):
            return False
        enumerator = self.lab.enumerator(self.query.source)
        extents = enumerator.extents(enumerator.discover())
        ends = {split: extent.end for split, extent in extents.items() if extent.end > extent.begin}
        return bool(ends) and ends.keys() <= enumerator.latest(ends, self.lab.horizon).keys()

    def _judge_all(self) -> None:
        for batch in self.query.steps():
            self._judge(batch)

    def _judge(self, batch: Batch) -> None:
        self._judge_bound(batch)
        for key in batch.keys:
            self._unread.pop(key, None)
        self._judge_delivery()
        self._judge_watermark(batch)

    def _judge_bound(self, batch: Batch) -> None:
        if self._drift_ms is None or not batch.keys:
            return
        before_ms, heads = batch.start.get("watermark", _NEVER), self._heads()
        # A split behind the watermark is read at once, and holds back no other; a split of the source may hold several
        # of ours.
        if min(heads.values(), default=0) <= before_ms and not self.lab.can(Ability.ROW_POSITIONS):
            return
        low_ms = min((at for at in heads.values() if at > before_ms), default=before_ms + 1)
        # Rows out of order may pass a cut by probing by this much.
        bound_ms = max(low_ms + self._drift_ms, batch.start.get("bound", _NEVER)) + self._disorder_ms
        ahead = [key for key, row in self._unread.items() if _time_of(row) >= bound_ms]
        beyond = [(key, _past(bound_ms, _time_of(self._unread[key]))) for key in batch.keys if key in ahead]
        for key, past in beyond:
            raise self.lab.fail(f"batch {batch.number} reads {key}, {past} the bound: it should have been paused")
        if ahead:
            self.lab.saw("a pause")

    def _judge_delivery(self) -> None:
        gone = self._lost | self._unread.keys()
        expected = {split.number: [row.key for row in split.rows if row.key not in gone] for split in self.lab.splits}
        # Rows that were deleted after they were planned may come or not.
        delivered = self.query.delivered
        kept = [key for key in delivered if key not in self._lost]
        self.lab.refuse(difference(expected, kept, in_order=self.lab.can(Ability.ROW_POSITIONS)))
        self.lab.expect(len(set(delivered)) == len(delivered), "a row that was deleted meanwhile came twice")

    def _judge_watermark(self, batch: Batch) -> None:
        before_ms, after_ms = self._watermark_ms, batch.end.get("watermark", _NEVER)
        self.lab.expect(after_ms >= before_ms, f"batch {batch.number}: the watermark goes back to {after_ms} ms")
        late = self._late()
        self._watermark_ms = after_ms
        holding = [key for key, row in self._unread.items() if row.split not in late]
        passed = [key for key in holding if before_ms < _time_of(self._unread[key]) <= after_ms]
        self.lab.expect(
            not passed,
            f"batch {batch.number}: the watermark passes {passed[:1]}, which is there and not read: it will be late",
        )

    def _expect_all_read(self, when: str) -> None:
        keys = list(self._unread)
        self.lab.expect(not keys, f"{when}, {len(keys)} rows are not delivered: {', '.join(keys[:5])}")

    def _heads(self) -> dict[int, int]:
        """Return the event time, in ms, of the first unread row of each split that has one."""
        heads: dict[int, int] = {}
        for row in self._unread.values():
            heads.setdefault(row.split, _time_of(row))
        return heads

    def _late(self) -> set[int]:
        """Return the splits that came, or woke, behind the watermark and have not caught up: they do not hold it."""
        late = {split for split, at_ms in self._heads().items() if at_ms <= self._watermark_ms} & self._behind
        # A split of the source may hold several of ours.
        return set(self._heads()) if late and not self.lab.can(Ability.ROW_POSITIONS) else late

    def _holds(self, split: Split) -> bool:
        """Return whether the watermark must not pass the last row of a split."""
        is_idle = self.query.clock.now_s - self._grown_at_s.get(split.number, -IDLE_S) >= IDLE_S
        seen = split.trimmed < len(split.rows) and not any(row.key in self._unread for row in split.rows)
        return self.lab.can(Ability.GROWING_SPLITS) and seen and not is_idle and split.number not in self._behind

    def _lose(self, rows: list[Row]) -> None:
        self._lost |= {row.key for row in rows if self._unread.pop(row.key, None) is not None}


def _time_of(row: Row) -> int:
    return row.event_time_ms or 0


def _past(earlier_ms: int, later_ms: int) -> str:
    if earlier_ms == _NEVER:
        return "forever past"
    return f"{(later_ms - earlier_ms) / SECOND_MS:g} s past" if later_ms != earlier_ms else "exactly at"
