"""Connectors that keep the rules of what the reference connector, which has only what it needs, does not have."""

import time

from tests.conformance.mutants.mutant import sinful
from tidegate.alignment.budget import Cost
from tidegate.conformance.memory.reference import MemoryEnumerator


class WholeEnumerator(MemoryEnumerator):
    """Has every optional protocol."""

    positions_are_rows = True

    def __init__(self, source, state):
        super().__init__(source, state)
        self._committed = {}

    def wall_clock(self):
        return time.time()

    def commit(self, positions):
        self._committed = dict(positions)

    def metrics(self):
        return {"committedPositions": sum(self._committed.values())}

    def details(self, wanted):
        return {"store": self._state["store"]}

    def cost(self, ranges):
        rows = sum(each.end - each.start for each in ranges.values())
        return Cost(rows, bytes=100 * rows)


REFERENCES = dict.fromkeys(
    ("LIFE-14", "LIFE-15", "LIFE-16", "LIFE-17", "LIFE-18"),
    sinful(enumerator=WholeEnumerator),
)
