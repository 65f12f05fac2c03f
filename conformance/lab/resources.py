"""Observes this process: its threads, child processes, sockets and files."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_DESCRIPTORS = next((path for path in (Path("/proc/self/fd"), Path("/dev/fd")) if path.exists()), None)
_PROC = Path("/proc")  # of Linux; other systems show no processes


@dataclass(frozen=True)
class Resources:
    """The resources of a process at a moment: names by kind.

    Without support of the system, children and the kinds of descriptors are left out.
    """

    kinds: Mapping[str, Mapping[object, str]]

    @classmethod
    def now(cls) -> Resources:
        """Return the present resources."""
        kinds: dict[str, dict[object, str]] = {
            "thread": {thread.ident: thread.name for thread in threading.enumerate()},
            "child process": {pid: _command(pid) for pid in _children()},
        }
        for number, what in _descriptors().items():
            kind = what.partition(":")[0] if not what.startswith("/") else "file"
            kinds.setdefault(kind, {})[number, what] = what
        return cls(kinds)

    def beyond(self, before: Resources) -> str | None:
        """Return a clause on the kinds with more resources than before.

        Counted by kind, because a pool may have replaced its resources.
        """
        grown = []
        for kind, now in self.kinds.items():
            then = before.kinds.get(kind, {})
            if len(now) > len(then):
                names = sorted({name for key, name in now.items() if key not in then})
                grown.append(f"{len(now) - len(then)} more of the kind {kind!r} than before, such as {names[-1]!r}")
        return " and ".join(grown) or None


def _descriptors() -> dict[int, str]:
    kinds: dict[int, str] = {}
    if _DESCRIPTORS is None:
        return kinds
    for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - names alone are wanted
        with suppress(OSError):  # the one that listed them is gone by now
            kinds[int(name)] = os.readlink(_DESCRIPTORS / name) if _DESCRIPTORS.parts[1] == "proc" else "descriptor"  # noqa: PTH115
    return kinds


def _children() -> list[int]:
    """Return the running children of this process."""
    children = []
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z" and int(parent) == os.getpid():
                children.append(int(folder.name))
    return children


def _command(pid: int) -> str:
    """Return the command line of a process; empty: it has ended."""
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
