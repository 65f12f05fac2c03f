"""Names a process so that another one of the machine can tell whether it has ended.

A number alone does not do: it says nothing on another machine, after a reboot, or in another container, and
the system gives it to another process some time after the first has ended.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["has_ended", "runs", "this_process"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NUMBERS = Path("/proc/self/ns/pid")  # containers of one machine may share its name, never this
_PROCESSES = Path("/proc")
_START = 18  # of what stands after the state in /proc/PID/stat
_DEAD = ("Z", "X")  # its parent has yet to ask what became of it


def this_process() -> str:
    """Return the name of this process; empty where the system does not say enough (Linux does)."""
    place, begun = _place(), _running("self")
    return f"{place} {os.getpid()} {begun}" if place and begun else ""


def has_ended(process: str) -> bool:
    """Tell whether a process ran where this one does, and is gone; False also when that cannot be told.

    process: what ``this_process`` returned there.
    """
    return runs(process) is False


def runs(process: str) -> bool | None:
    """Tell whether a process runs where this one does; None: that cannot be told.

    process: what ``this_process`` returned there.
    """
    named, _, begun = process.rpartition(" ")
    place, _, number = named.rpartition(" ")
    if not place or place != _place():
        return None
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is somebody else's, who may have been given the number since
    found = _running(number)
    return None if found is None else found == begun


def _place() -> str:
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_NUMBERS.readlink()}"
    except OSError:
        return ""


def _running(number: str) -> str | None:
    """Return when a process began, in the clock of the system; empty: it is dead; None: that cannot be seen."""
    try:
        state, *others = (_PROCESSES / number / "stat").read_bytes().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return None
    return "" if state in _DEAD else others[_START]
