from tests.conformance.memory.reference import MemoryEnumerator
from tests.conformance.mutants.mutant import Mutant, sinful
from tests.conformance.mutants.planners import (
    Changed,
)
from tidegate.alignment.budget import UNLIMITED, Cost
from tidegate.conformance.lab.lab import IN_THE_YEAR_2200_MS

SECOND_MS = 1_000


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


class WatermarkIsOfTheFuture(Changed):
    """Takes a row that is held for the next one when nothing else is left to read."""

    def latest_offset(self, start, *limits):
        end = super().latest_offset(start, *limits)
        return {**end, "watermark": IN_THE_YEAR_2200_MS} if end == start else end


DROPPED = "Spark drops "


def enumerating(sin, killer, words, enumerator):
    return Mutant(sin, killer, (words,), sinful(enumerator=enumerator))


def planning(sin, killer, words, open_run):
    return Mutant(sin, killer, (words,), sinful(), open_run)


MUTANTS = [
    enumerating("every second row is counted", "ALIGN-7", "rows, but 4 are allowed", CountsHalfOfTheRows),
    planning("a row limit is shared out", "ALIGN-27", DROPPED, SharesTheLimitOut),
    planning("a row that is held moves the watermark", "ALIGN-25", "the watermark is +", WatermarkIsOfTheFuture),
]
