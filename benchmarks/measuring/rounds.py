"""Runs what is compared by turns, and measures each run: its seconds, and the CPU of this session's other processes.

Those are Spark's Java and the Pythons that it starts.  Servers have sessions of their own.  Other work on the machine
changes CPU time far less than the time on the clock.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

JAVA, PYTHON = KINDS = ("Java", "Python")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Measured(Generic[_T]):
    """A run: what it returned, its seconds, and the CPU seconds of each kind of process."""

    result: _T
    seconds: float
    cpu_s: Mapping[str, float]

    @property
    def whole_cpu_s(self) -> float:
        """The CPU seconds of all processes."""
        return sum(self.cpu_s.values())


def measure(run: Callable[[], _T]) -> Measured[_T]:
    """Run once."""
    before, begun = _cpu_seconds(), time.perf_counter()
    result = run()
    spent, after = time.perf_counter() - begun, _cpu_seconds()
    return Measured(result, spent, {kind: after[kind] - before[kind] for kind in KINDS})


def by_turns(runs: Mapping[str, Callable[[], _T]], rounds: int) -> dict[str, list[Measured[_T]]]:
    """Return what each run took in every round, after one round that does not count.

    The order changes every time, so that other work on the machine affects all runs alike.
    """
    taken: dict[str, list[Measured[_T]]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name in runs if number % 2 else reversed(runs):
            measured = measure(runs[name])
            if number:
                taken[name].append(measured)
    return taken


def spread(figures: Sequence[float], unit: str = "s", digits: int = 2) -> str:
    """Return the median with the least and the greatest, as text."""
    least, median, most = (f"{at:,.{digits}f}" for at in (min(figures), statistics.median(figures), max(figures)))
    return f"{median} {unit} ({least} to {most})"


def seconds(taken: Sequence[Measured[_T]]) -> list[float]:
    """Return the seconds of each run."""
    return [measured.seconds for measured in taken]


def ratio(peer: Sequence[float], ours: Sequence[float]) -> str:
    """Return how many times longer the peer takes, by the medians, as text."""
    return f"{statistics.median(peer) / statistics.median(ours):.2f}x"


def cpu(taken: Sequence[Measured[_T]]) -> str:
    """Return the median CPU seconds of each kind, as text."""
    return ", ".join(f"{kind} {statistics.median(measured.cpu_s[kind] for measured in taken):.1f}" for kind in KINDS)


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print Markdown."""
    for cells in (names, ["---"] * len(names), *rows):
        print(f"| {' | '.join(cells)} |", flush=True)


def _cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds so far of all processes of this session but this one.

    Java's children that ended are Python's: Spark starts a planner for each query.
    """
    ticks: Counter[str] = Counter()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) == os.getpid() or os.getsid(int(process.name)) != os.getsid(0):
                continue
            command = (process / "cmdline").read_bytes()
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        user, system, user_of_children, system_of_children = map(int, fields[11:15])
        ticks[JAVA if b"java" in command.split(b"\0")[0] else PYTHON] += user + system
        ticks[PYTHON] += user_of_children + system_of_children
    return {kind: ticks[kind] / os.sysconf("SC_CLK_TCK") for kind in KINDS}
