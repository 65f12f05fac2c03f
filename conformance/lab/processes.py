"""Reads the processes of this machine from Linux's /proc; other systems show none."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

__all__ = ["children", "command"]

_PROC = Path("/proc")


def children() -> dict[int, list[int]]:
    """Return the running children of each process."""
    by_parent: dict[int, list[int]] = {}
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                by_parent.setdefault(int(parent), []).append(int(folder.name))
    return by_parent


def command(pid: int) -> str:
    """Return the command line of a process; empty: it has ended."""
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
