"""The planner of a query that the kit runs: tidegate's coordinator, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.contract import Json
from tidegate.readers.contract import ReadTask
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


class Run(Protocol):
    """The contract of a planner: a SourceCoordinator, or a mutant of one."""

    def bound_run(self) -> None:
        """Fix the ends of this run (Trigger.AvailableNow)."""

    def latest_offset(self, start: Json, budget: Budget = UNLIMITED, min_rows: int = 0) -> Json:
        """Return the end of the next batch."""

    def tasks(self, start: Json, end: Json) -> list[ReadTask]:
        """Return the tasks of a batch."""

    def source_progress(self) -> Json | None:
        """Return the progress of the source after the last plan."""

    def close(self) -> None:
        """Release all resources."""


OpenRun: TypeAlias = Callable[[Source, Clocks, int], Run]
"""Makes a planner for a source; the number is that of the cores."""


def open_coordinator(source: Source, clocks: Clocks, cores: int) -> Run:
    """Return the planner that Spark runs, in this process."""
    return coordinator_of(source, Driver(cores, "conformance"), clocks=clocks)
