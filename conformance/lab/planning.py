"""The planner of a query that the kit runs: tidegate's coordinator, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.sources.bridge import Driver, coordinator_of
from tidegate.sources.source import Source

WALL_S = 1_767_225_600.0 + 30 * 86_400
"""The begin of wall clocks in scenarios, in seconds: 30 days after the first event time."""


class LabClock:
    """Seconds that pass only when someone sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    @property
    def clocks(self) -> Clocks:
        """The clocks for a coordinator."""
        return Clocks(lambda: self.now_s, lambda: WALL_S + self.now_s, self.sleep)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


OpenRun: TypeAlias = Callable[[Source, Clocks, int], SourceCoordinator]
"""Makes a planner for a source, or what stands in its place; the number is that of the cores."""


def open_coordinator(source: Source, clocks: Clocks, cores: int) -> SourceCoordinator:
    """Return the planner that Spark runs, in this process."""
    return coordinator_of(source, Driver(cores, "conformance"), clocks=clocks)
