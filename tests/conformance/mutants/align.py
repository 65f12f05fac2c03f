import time

from tests.conformance.memory.reference import MemoryEnumerator, MemorySource
from tests.conformance.mutants.mutant import Mutant, sinful
from tests.conformance.mutants.planners import (
    Changed,
)
from tidegate.alignment.budget import UNLIMITED, Cost
from tidegate.alignment.horizon import Horizon
from tidegate.conformance.lab.lab import IN_THE_YEAR_2200_MS

SECOND_MS = 1_000


class BoundInclusive(MemoryEnumerator):
    def lookup(self, event_time_ms, splits):
        return super().lookup(event_time_ms + 1, splits)


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


class CountsHalfOfTheRows(MemoryEnumerator):
    positions_are_rows = False

    def cost(self, ranges):
        return Cost(rows=sum(r.end - r.start for r in ranges.values()) // 2)


class SharesTheLimitOut(Changed):
    """Gives each split the same share of a row limit, wherever that cuts it."""

    def latest_offset(self, start, budget=UNLIMITED, min_rows=0):
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


class WatermarkIsOfTheFuture(Changed):
    """Takes a row that is held for the next one when nothing else is left to read."""

    def latest_offset(self, start, *limits):
        end = super().latest_offset(start, *limits)
        return {**end, "watermark": IN_THE_YEAR_2200_MS} if end == start else end


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


def enumerating(sin, killer, words, enumerator):
    return Mutant(sin, killer, (words,), sinful(enumerator=enumerator))


def planning(sin, killer, words, open_run):
    return Mutant(sin, killer, (words,), sinful(), open_run)


MUTANTS = [
    enumerating("the bound is inclusive", "ALIGN-1", PAST, BoundInclusive),
    enumerating("peek answers for 16 splits", "ALIGN-3", PAST, PeeksAtAPage),
    enumerating("lookup skips what is not behind all earlier rows", "ALIGN-4", PAST, LooksFromBehind),
    enumerating("peek sees the first rows of pages", "ALIGN-5", PAST, PeeksAtPages),
    enumerating("every second row is counted", "ALIGN-7", "rows, but 4 are allowed", CountsHalfOfTheRows),
    Mutant(
        "rows in the future are aligned",
        "TIME-3",
        ("peek() of 'split-0' at 0 says position 0 of +5490892800 s",),
        sinful(source=AlignsByTheFuture),
    ),
    enumerating("the clock is an hour ahead", "LIFE-15", "wall_clock() says", AnHourAhead),
    planning("a row limit is shared out", "ALIGN-27", DROPPED, SharesTheLimitOut),
    planning("a cut falls short of the others", "ALIGN-28", DROPPED, FallsShort),
    planning("a row limit is shared out to what is left out", "ALIGN-29", DROPPED, SharesTheLimitOutBesideIgnoredRows),
    planning("a row that is held moves the watermark", "ALIGN-25", "the watermark is +", WatermarkIsOfTheFuture),
    enumerating("probing steps over what is held", "ALIGN-25", "before its time has come", LooksThroughNoRange),
    Mutant("the future is not held", "ALIGN-25", ("before its time has come",), sinful(source=DoesNotHold)),
]
