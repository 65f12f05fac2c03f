"""Names a process so that another one of the machine can tell whether it has ended.

A number alone does not do: it says nothing on another machine, after a reboot, or in another container.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["has_ended", "this_process"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NUMBERS = Path("/proc/self/ns/pid")  # containers of one machine may share its name, never this


def this_process() -> str:
    """Return the name of this process; empty where the system does not say enough (Linux does)."""
    place = _place()
    return f"{place} {os.getpid()}" if place else ""


def has_ended(process: str) -> bool:
    """Tell whether a process ran where this one does, and is gone; False also when that cannot be told.

    process: what ``this_process`` returned there.
    """
    place, _, number = process.rpartition(" ")
    if not place or place != _place():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _place() -> str:
    try:
        return f"{_BOOT.read_text('ascii').strip()} {_NUMBERS.readlink()}"
    except OSError:
        return ""
