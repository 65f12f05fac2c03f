"""Processes of this machine, as Linux shows them in /proc; on other systems there are none to be seen."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

__all__ = ["children", "command"]

_PROC = Path("/proc")


def children() -> dict[int, list[int]]:
    """Return the children of each process that has some, but for those that have ended."""
    found: dict[int, list[int]] = {}
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                found.setdefault(int(parent), []).append(int(folder.name))
    return found


def command(pid: int) -> str:
    """Return the command line of a process; empty: it has ended."""
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
