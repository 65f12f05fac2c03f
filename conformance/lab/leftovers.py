"""Finds leftovers of a Spark query on this machine, as Linux shows them: processes, threads, connections."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.conformance.errors import SkippedError
from tidegate.conformance.lab.processes import children, command
from tidegate.spark_private import java_of

__all__ = ["Held"]

_PROC = Path("/proc")
_PLANNER = "python_streaming_source_runner"
_ESTABLISHED = "01"


@dataclass(frozen=True)
class Held:
    """The resources at one moment.

    planners: the processes in which Spark plans streams, and all processes that these started.
    threads: of this process, without those of py4j in which Spark calls Python.
    connections: of Spark's Python workers, except to Spark, as process and remote port.
    """

    planners: frozenset[int]
    threads: frozenset[threading.Thread] = field(repr=False)
    connections: frozenset[tuple[int, int]]

    @classmethod
    def now(cls, spark: SparkSession) -> Held:
        """Return the present resources.  Raises SkippedError without /proc."""
        if not (_PROC / "net" / "tcp").exists():
            raise SkippedError("it looks at processes as Linux shows them, in /proc")
        java = int(java_of(spark).java.lang.ProcessHandle.current().pid())
        families = children()
        below = list(_below([java], families))
        planners = [pid for pid in below if _PLANNER in command(pid)]
        planners += _below(planners, families)
        workers = [pid for pid in below if pid not in planners]
        return cls(frozenset(planners), frozenset(_threads()), frozenset(_connections(workers, java)))

    def since(self, before: Held, started: Collection[int]) -> list[str]:
        """Describe the new resources.

        started: processes to find under any parent: one that outlives its parent gets another.
        """
        orphans = [pid for pid in started if (_PROC / str(pid)).exists() and pid not in self.planners]
        return [
            *(f"the planner process {pid}" for pid in sorted(self.planners - before.planners)),
            *(f"the process {pid} that the planner started" for pid in sorted(orphans)),
            *(f"the thread {thread.name!r}" for thread in self.threads - before.threads if thread.is_alive()),
            *(
                f"a connection of the worker process {pid} to port {port}"
                for pid, port in sorted(self.connections - before.connections)
            ),
        ]


def _below(parents: Collection[int], families: dict[int, list[int]]) -> Iterator[int]:
    for parent in parents:
        yield from families.get(parent, ())
        yield from _below(families.get(parent, ()), families)


def _threads() -> Iterator[threading.Thread]:
    frames = sys._current_frames()  # noqa: SLF001 - documented for this very use
    for thread in threading.enumerate():
        at = frames.get(thread.ident or 0)
        if at is not None and not any("py4j" in f.f_code.co_filename for f, _ in traceback.walk_stack(at)):
            yield thread


def _connections(pids: Collection[int], java: int) -> Iterator[tuple[int, int]]:
    """Yield process and remote port of all connections except those to Java."""
    ends = {}
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "net" / name).read_text().splitlines()[1:]:
                _, local, remote, state, *_, inode = line.split()[:10]
                ends[inode] = (_port(local), _port(remote), state)
    of_java = {ends[inode][0] for inode in _sockets(java) if inode in ends}
    for pid in pids:
        for inode in _sockets(pid):
            _, port, state = ends.get(inode, (0, 0, ""))
            if state == _ESTABLISHED and port not in of_java:
                yield pid, port


def _port(end: str) -> int:
    return int(end.rpartition(":")[2], 16)


def _sockets(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                kind, _, inode = str(entry.readlink()).partition(":[")
                if kind == "socket":
                    yield inode.rstrip("]")
