"""Waiting for what another process or thread brings about, and never for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_S = 0.02  # what is waited for belongs to other processes, which tell a test nothing


def await_that(
    condition: Callable[[], object], seconds: float = 60, state: Callable[[], object] = lambda: None
) -> None:
    """Wait until the condition is true.

    state: says in the failure how things stood when the time was over.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, state()
        time.sleep(_POLL_S)
