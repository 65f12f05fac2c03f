"""Waiting for what another process or thread brings about, and never for ever; work that goes on meanwhile."""

import threading
import time
from contextlib import contextmanager

PATIENCE_S = 300
"""The maximum time of a wait in a test, however slow the machine is; only a wait that fails takes it."""

_POLL_S = 0.02


def await_that(condition, seconds=PATIENCE_S, state=lambda: None):
    """Wait until the condition is true.

    state: says in the failure how things stood when the time was over.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, state()
        time.sleep(_POLL_S)  # what is waited for belongs to other processes, which tell a test nothing


@contextmanager
def meanwhile(work):
    """Work in a thread while the block runs.

    work: is given an event that is set at the end of the block, and returns soon after.
    """
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
