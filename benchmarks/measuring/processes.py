"""The CPU time of a session's processes: Spark's Java, the Pythons that it starts, and the Kafka brokers.

Other work on the machine changes CPU time far less than the time on the clock.
"""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

JAVA, PYTHON, BROKER = KINDS = ("Java", "Python", "broker")

_T = TypeVar("_T")
Seconds = Counter[str]


def cpu_seconds() -> Seconds:
    """Return the CPU seconds so far of all processes of this session but this one, by KINDS.

    Java's children that ended are Python's: Spark starts a planner for each query.
    """
    ticks: Seconds = Counter()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) == os.getpid() or os.getsid(int(process.name)) != os.getsid(0):
                continue
            command = (process / "cmdline").read_bytes()
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        user, system, user_of_children, system_of_children = map(int, fields[11:15])
        kind = BROKER if b"kafka.Kafka" in command else JAVA if b"java" in command.split(b"\0")[0] else PYTHON
        ticks[kind] += user + system
        ticks[PYTHON if kind == JAVA else kind] += user_of_children + system_of_children
    return Counter({kind: ticks[kind] / os.sysconf("SC_CLK_TCK") for kind in KINDS})  # type: ignore[misc]


def counting_cpu(run: Callable[[], _T], spent: list[Seconds]) -> Callable[[], _T]:
    """Return a run that notes the CPU seconds of each of its calls."""

    def counted() -> _T:
        before = cpu_seconds()
        result = run()
        after = cpu_seconds()
        spent.append(Counter({kind: after[kind] - before[kind] for kind in KINDS}))  # type: ignore[misc]
        return result

    return counted


def medians(spent: Sequence[Seconds]) -> str:
    """Return the median of each kind, as text; the first call does not count."""
    return ", ".join(f"{kind} {statistics.median(seconds[kind] for seconds in spent[1:]):.1f}" for kind in KINDS)
