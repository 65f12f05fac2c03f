"""Planners with one sin: each changes the offsets of the coordinator of a source."""

from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.alignment.budget import UNLIMITED
from tidegate.alignment.horizon import Horizon
from tidegate.conformance.lab.lab import IN_THE_YEAR_2200_MS
from tidegate.conformance.lab.planning import open_coordinator


class Around:
    """A planner that leaves everything to the coordinator of a source."""

    def __init__(self, source, clocks, cores):
        self.source, self.run = source, open_coordinator(source, clocks, cores)

    def __getattr__(self, name):
        return getattr(self.run, name)


class SharesTheLimitOut(Around):
    """Gives each split the same share of a row limit, wherever that cuts it."""

    def latest_offset(self, start, budget=UNLIMITED, min_rows=0):
        end = self.run.latest_offset(start, UNLIMITED, min_rows)
        if budget.rows is None or end == start:
            return end
        before, share = start.get("positions", {}), max(1, budget.rows // len(end["positions"]))
        cut = {split: min(at, before.get(split, 0) + share) for split, at in end["positions"].items()}
        return {**end, "positions": cut}


class WatermarkIsOfTheFuture(Around):
    """Takes a row that is held for the next one when nothing else is left to read."""

    def latest_offset(self, start, *limits):
        end = self.run.latest_offset(start, *limits)
        return {**end, "watermark": IN_THE_YEAR_2200_MS} if end == start else end


class WatermarkByMax(Around):
    """Has the watermark of the split that is furthest ahead, like Spark's watermark."""

    def latest_offset(self, start, *limits):
        offset = self.run.latest_offset(start, *limits)
        enumerator = self.source.enumerator(None)
        extents = enumerator.extents(enumerator.discover())
        ends = {s: e.end for s, e in extents.items() if offset["positions"].get(s, 0) >= e.end}
        times = [offset.get("watermark"), *enumerator.latest(ends, Horizon()).values()]
        known = [at for at in times if at is not None]
        return {**offset, "watermark": max(known)} if known else offset


PLANNERS = [
    ("a row limit is shared out", "ALIGN-27", "Spark drops ", SharesTheLimitOut),
    ("a row that is held moves the watermark", "ALIGN-25", "the watermark is +", WatermarkIsOfTheFuture),
    ("the watermark is the greatest of all splits", "WHOLE-1", "has not waited for its split", WatermarkByMax),
]

MUTANTS = [Mutant(sin, killer, words, sinful(), planner) for sin, killer, words, planner in PLANNERS]
