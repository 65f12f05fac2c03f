import time

from tests.conformance.mutants.mutant import Mutant, sinful
from tests.conformance.mutants.planners import (
    Around,
    Changed,
    IgnoresBoundedRuns,
    OnceIdleAlwaysIdle,
    OnlyTheLargest,
    idle_at_once,
    of_another,
    unaligned,
    with_fields,
)
from tests.conformance.mutants.time import (
    LatestIsZeroWithoutARow,
    NeverComplete,
    WatermarkGoesBack,
)
from tests.support.offsets import unpacked
from tidegate.alignment.budget import UNLIMITED, Cost
from tidegate.alignment.horizon import Horizon
from tidegate.conformance.checks.time.bad import IN_THE_YEAR_2200_MS
from tidegate.conformance.memory.reference import MemoryEnumerator, MemorySource
from tidegate.errors import DataLossError

SECOND_MS = 1_000


class BoundInclusive(MemoryEnumerator):
    def lookup(self, event_time_ms, splits):
        return super().lookup(event_time_ms + 1, splits)


class NeverResumes(Changed):
    """Never reads a split again after a pause."""

    def __init__(self, *opened):
        super().__init__(*opened)
        self.paused = {}

    def after(self, start, end):
        for split in self.run.source_progress()["paused"]:
            self.paused.setdefault(split, end["positions"][split])
        return {**end, "positions": {**end["positions"], **self.paused}}


class WaitsAtGaps(Changed):
    """Takes the time of the row that was read last for the time of the slowest split."""

    def after(self, start, end):
        return start if "bound" in start and end["bound"] > start["bound"] + 20 * SECOND_MS else end


class PeeksAtAPage(MemoryEnumerator):
    def peek(self, positions, horizon):
        return {**dict.fromkeys(positions), **super().peek(dict(list(positions.items())[:16]), horizon)}


class LooksFromBehind(MemoryEnumerator):
    """Answers with the row after the last row before a time."""

    def lookup(self, event_time_ms, splits):
        firsts = {}
        for split in splits:
            heads = list(self._heads(split, 0, Horizon()))
            at = max((n + 1 for n, head in enumerate(heads) if head.event_time_ms < event_time_ms), default=0)
            firsts[split] = heads[at] if at < len(heads) else None
        return firsts


class PeeksAtPages(MemoryEnumerator):
    """Sees the first row of every page, and the last row."""

    def peek(self, positions, horizon):
        ends = {s: extent.end for s, extent in self.extents(positions).items()}
        return super().peek({s: min(-(-at // 8) * 8, max(at, ends[s] - 1)) for s, at in positions.items()}, horizon)


class ReadsAllAfterARestart(Changed):
    def latest_offset(self, start, *limits):
        if "positions" in start and not self.asked:
            self.asked = True
            return self.again(unaligned(self.source)).latest_offset(start, *limits)
        return super().latest_offset(start, *limits)


class CountsHalfOfTheRows(MemoryEnumerator):
    positions_are_rows = False

    def cost(self, ranges):
        return Cost(rows=sum(r.end - r.start for r in ranges.values()) // 2)


class IgnoresTheLimit(Around):
    def latest_offset(self, start, budget=UNLIMITED, min_rows=0):
        return self.run.latest_offset(start, UNLIMITED, min_rows)


class SharesTheLimitOut(Changed):
    """Gives each split the same share of a row limit, wherever that cuts it."""

    def latest_offset(self, start, budget=UNLIMITED, min_rows=0):
        start = unpacked(start)
        end = super().latest_offset(start, UNLIMITED, min_rows)
        if budget.rows is None or end == start:
            return end
        before, share = start.get("positions", {}), max(1, budget.rows // len(end["positions"]))
        cut = {split: min(at, before.get(split, 0) + share) for split, at in end["positions"].items()}
        return {**end, "positions": cut}


class SharesTheLimitOutBesideIgnoredRows(SharesTheLimitOut):
    """Does the same, but only if a split has no rows to align by."""

    def latest_offset(self, start, budget=UNLIMITED, min_rows=0):
        enumerator = self.source.enumerator(None)
        heads = enumerator.peek(dict.fromkeys(enumerator.discover(), 0), self.source.event_time_policy.horizon(0))
        if None in heads.values():
            return super().latest_offset(start, budget, min_rows)
        return self.run.latest_offset(start, budget, min_rows)


class FallsShort(Changed):
    """Cuts one split a sixteenth of its batch before the others."""

    def after(self, start, end):
        before, split = start.get("positions", {}), min(end["positions"])
        at, ends = end["positions"][split], self.source.enumerator(None).extents([split])
        short = (at - before.get(split, 0)) // 16 if at < ends[split].end else 0
        return {**end, "positions": {**end["positions"], split: at - short}}


class PausedIsIdle(Changed):
    def after(self, start, end):
        return {**end, "idle": sorted(paused)} if (paused := self.run.source_progress()["paused"]) else end


class WatermarkPassesPausedRows(Changed):
    """Adds ten minutes to the watermark while a split is paused, and plans with the true one."""

    told, true = None, None

    def before(self, start):
        return {**start, "watermark": self.true} if start.get("watermark", 0) == self.told else start

    def after(self, start, end):
        if not self.run.source_progress()["paused"]:
            return end
        self.true = end["watermark"]
        self.told = self.true + 600 * SECOND_MS
        return {**end, "watermark": self.told}


class WatermarkIsOfTheFuture(Changed):
    """Takes a row that is held for the next one when nothing else is left to read."""

    def latest_offset(self, start, *limits):
        end = super().latest_offset(start, *limits)
        return {**end, "watermark": IN_THE_YEAR_2200_MS} if end == unpacked(start) else end


class CountsNoLateRows(Around):
    def source_progress(self):
        return {**(self.run.source_progress() or {}), "lateRowsTotal": 0}


class LatestIsTheLastPosition(MemoryEnumerator):
    def latest(self, ends, horizon):
        heads = self.peek({split: max(0, end - 1) for split, end in ends.items()}, horizon)
        return {split: None if head is None else head.event_time_ms for split, head in heads.items()}


class ComplainsOfLostRows(MemoryEnumerator):
    def extents(self, splits):
        extents = super().extents(splits)
        if any(extent.begin > 0 for extent in extents.values()):
            raise DataLossError("rows are gone")
        return extents


class ComplainsOfLostSplits(MemoryEnumerator):
    def extents(self, splits):
        extents = super().extents(splits)
        if extents.keys() != set(splits):
            raise DataLossError("a split is gone")
        return extents


class AlignsByTheFuture(MemorySource):
    def usable_ms(self, split, record, horizon):
        return super().usable_ms(split, record, Horizon())


class AnHourAhead(MemoryEnumerator):
    def wall_clock(self):
        return time.time() + 3600


class DoesNotHold(MemorySource):
    def usable_ms(self, split, record, horizon):
        return MemorySource.usable_ms(self.model_copy(update={"future_event_time": "ignore"}), split, record, horizon)


class LooksThroughNoRange(MemoryEnumerator):
    def held(self, ranges, horizon):
        return {r.split_id: None for r in ranges}


PAST = "at or past the bound"
DROPPED = "Spark drops "
LEFT = "were written and not all delivered"


def enumerating(sin, killer, words, enumerator):
    return Mutant(sin, killer, (words,), sinful(enumerator=enumerator))


def planning(sin, killer, words, open_run):
    return Mutant(sin, killer, (words,), sinful(), open_run)


MUTANTS = [
    enumerating("the bound is inclusive", "ALIGN-1", PAST, BoundInclusive),
    planning("a paused split is read", "ALIGN-1", PAST, of_another(unaligned)),
    planning("a paused split is never resumed", "ALIGN-1", LEFT, NeverResumes),
    planning("a gap is waited for", "ALIGN-2", LEFT, WaitsAtGaps),
    enumerating("peek answers for 16 splits", "ALIGN-3", PAST, PeeksAtAPage),
    enumerating("lookup skips what is not behind all earlier rows", "ALIGN-4", PAST, LooksFromBehind),
    enumerating("peek sees the first rows of pages", "ALIGN-5", PAST, PeeksAtPages),
    planning("the bound is forgotten by a restart", "ALIGN-6", PAST, ReadsAllAfterARestart),
    enumerating("every second row is counted", "ALIGN-7", "rows, but 4 are allowed", CountsHalfOfTheRows),
    planning("a row limit is ignored", "ALIGN-7", "rows, but 4 are allowed", IgnoresTheLimit),
    planning("a small split is starved", "ALIGN-8", "split 1 gives nothing to 3 batches", OnlyTheLargest),
    planning("without alignment a split is starved", "ALIGN-9", "split 1 gives nothing to 3 batches", OnlyTheLargest),
    enumerating("a finished split holds the others", "ALIGN-10", LEFT, NeverComplete),
    planning("nobody waits for a split that may grow", "ALIGN-10", "may still get rows", of_another(unaligned)),
    planning("a split at its end holds a bounded run", "ALIGN-11", "1#2", IgnoresBoundedRuns),
    planning("an idle split lets go at once", "ALIGN-12", "quiet for 29 s only", idle_at_once),
    planning("a paused split becomes idle", "ALIGN-13", "'split-1' became idle", PausedIsIdle),
    planning("the watermark passes paused rows", "ALIGN-13", "at or before the watermark", WatermarkPassesPausedRows),
    planning("a split that wakes holds nobody", "ALIGN-15", "split 0 woke, and stands at", OnceIdleAlwaysIdle),
    enumerating("an empty split holds the others", "ALIGN-16", LEFT, LatestIsZeroWithoutARow),
    enumerating("latest is blind behind holes", "ALIGN-17", "1#1 is read past the bound", LatestIsTheLastPosition),
    planning("a bounded run goes on with what comes", "ALIGN-18", "written after it had begun", IgnoresBoundedRuns),
    enumerating("lost rows end the query", "ALIGN-19", "DataLossError: rows are gone", ComplainsOfLostRows),
    enumerating("a lost split ends the query", "ALIGN-20", "DataLossError: a split is gone", ComplainsOfLostSplits),
    planning("late rows are not counted", "ALIGN-21", "counts 0 late rows", CountsNoLateRows),
    planning("a late split moves the watermark back", "ALIGN-21", "the watermark goes back", WatermarkGoesBack),
    planning("nobody waits for a late split", "ALIGN-22", PAST, with_fields(late_splits="admit")),
    Mutant(
        "rows in the future are aligned", "ALIGN-24", ("at or before the watermark",), sinful(source=AlignsByTheFuture)
    ),
    enumerating("the clock is an hour ahead", "ALIGN-26", "s before its time", AnHourAhead),
    planning("a row limit is shared out", "ALIGN-27", DROPPED, SharesTheLimitOut),
    planning("a cut falls short of the others", "ALIGN-28", DROPPED, FallsShort),
    planning("a row limit is shared out to what is left out", "ALIGN-29", DROPPED, SharesTheLimitOutBesideIgnoredRows),
    planning("a row that is held moves the watermark", "ALIGN-25", "the watermark is +", WatermarkIsOfTheFuture),
    enumerating("probing steps over what is held", "ALIGN-25", "before its time has come", LooksThroughNoRange),
    Mutant("the future is not held", "ALIGN-25", ("before its time has come",), sinful(source=DoesNotHold)),
]
