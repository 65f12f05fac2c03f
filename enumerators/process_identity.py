"""Names a process so that another process on the machine can see whether it has ended.

A process id alone is not enough: it means nothing on another machine, after a reboot, or in another container.  The
system also reuses it some time after the process has ended.
"""

from __future__ import annotations

import os
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NUMBERS = Path("/proc/self/ns/pid")  # containers of one machine may share the host name, but never this
_PROCESSES = Path("/proc")
_START = 18  # among the fields after the state in /proc/PID/stat
_DEAD = ("Z", "X")  # dead; its parent has not waited for it yet


def this_process() -> str:
    """Return the name of this process; empty if the system reveals too little (Linux reveals enough)."""
    place, begun = _place(), _running("self")
    return f"{place} {os.getpid()} {begun}" if place and begun else ""


def has_ended(process: str) -> bool:
    """Return whether a process that ``this_process`` named has ended on this machine; False if that is unknown."""
    return runs(process) is False


def runs(process: str) -> bool | None:
    """Return whether a process that ``this_process`` named runs on this machine."""
    named, _, begun = process.rpartition(" ")
    place, _, number = named.rpartition(" ")
    if not place or place != _place():
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OverflowError):
        return None
    except PermissionError:
        pass  # another user's process, which may have the reused number
    began = _running(number)
    return None if began is None else began == begun


def _place() -> str:
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_NUMBERS.readlink()}"
    except OSError:
        return ""


def _running(number: str) -> str | None:
    """Return when a process began, by the clock of the system; empty: it is dead."""
    try:
        state, *others = (_PROCESSES / number / "stat").read_bytes().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return None
    return "" if state in _DEAD else others[_START]
