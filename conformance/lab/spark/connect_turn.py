"""Turns of processes that start a local server of Spark Connect, whose port is fixed."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

__all__ = ["await_connect_turn"]


def await_connect_turn() -> None:
    """Wait until no other process of this user has its turn.  A turn ends with its process."""
    path = Path(tempfile.gettempdir(), f"tidegate-connect-{os.getuid()}.lock")
    fcntl.flock(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), fcntl.LOCK_EX)  # stays open until the process ends
