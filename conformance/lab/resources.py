"""Observes this process: its threads, child processes, sockets and files, and the outside effects of a call."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_DESCRIPTORS = next((path for path in (Path("/proc/self/fd"), Path("/dev/fd")) if path.exists()), None)
_OF_FILES = frozenset({"open", "os.mkdir", "os.remove", "os.rename"})
_OUTWARD = _OF_FILES | {
    *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg"),
    *("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"),
    *("os.rmdir", "os.link", "os.symlink", "os.truncate"),
}
_PROC = Path("/proc")  # of Linux; other systems show no processes
_listeners: dict[int, list[str]] = {}  # by thread


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
            "child process": {pid: _command(pid) for pid in _children().get(os.getpid(), ())},
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


@contextmanager
def acts() -> Iterator[list[str]]:
    """Note this thread's actions on other processes and files, by the names of their audit events (PEP 578)."""
    _install()
    done = _listeners[threading.get_ident()] = []
    try:
        yield done
    finally:
        del _listeners[threading.get_ident()]


@cache
def _install() -> None:
    sys.addaudithook(_notice)  # an audit hook cannot be removed


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    if _listeners and event in _OUTWARD:
        done = _listeners.get(threading.get_ident())
        if done is not None and not (event in _OF_FILES and _harmless(event, arguments)):
            done.append(event)


def _harmless(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether a file is only read, or is Python's cache of a module that is imported for the first time."""
    path = arguments[0]
    opened = isinstance(path, int)  # a descriptor, of what was noticed when it was opened
    reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR)
    return opened or reads or (sys.pycache_prefix or "__pycache__") in str(path)


def _descriptors() -> dict[int, str]:
    kinds: dict[int, str] = {}
    if _DESCRIPTORS is None:
        return kinds
    for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208 - names alone are wanted
        with suppress(OSError):  # the one that listed them is gone by now
            kinds[int(name)] = os.readlink(_DESCRIPTORS / name) if _DESCRIPTORS.parts[1] == "proc" else "descriptor"  # noqa: PTH115
    return kinds


def _children() -> dict[int, list[int]]:
    """Return the running children of each process."""
    by_parent: dict[int, list[int]] = {}
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                by_parent.setdefault(int(parent), []).append(int(folder.name))
    return by_parent


def _command(pid: int) -> str:
    """Return the command line of a process; empty: it has ended."""
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
