"""Enumerators that leak resources, and the functions that open these resources."""

import socket
import tempfile
import threading
from pathlib import Path

from tests.conformance.memory.reference import MemoryEnumerator, MemoryHarness
from tests.conformance.mutants.mutant import sinful

KEPT = []


class Undoing(MemoryHarness):
    """Releases at the end the resources that mutants leave."""

    def close(self):
        super().close()
        while KEPT:
            KEPT.pop()()


def opening(what):
    """Return an enumerator whose constructor opens a resource."""

    class Opens(MemoryEnumerator):
        def __init__(self, source, state):
            super().__init__(source, state)
            KEPT.append(what())

    return sinful(enumerator=Opens, harness=Undoing)


def leaking(what):
    """Return an enumerator that opens a resource in ``discover``, and keeps it after ``close``."""

    class Leaks(MemoryEnumerator):
        _opened = False

        def discover(self):
            if not self._opened:
                KEPT.append(what())
                self._opened = True
            return super().discover()

    return sinful(enumerator=Leaks, harness=Undoing)


def a_written_file():
    with tempfile.TemporaryFile("w") as file:
        file.write("a cache")
    return lambda: None


def a_lookup():
    socket.getaddrinfo("localhost", 80)
    return list  # there is nothing to undo


def a_file():
    return Path(__file__).open().close


def a_thread():
    over = threading.Event()
    thread = threading.Thread(target=over.wait, daemon=True)
    thread.start()

    def end():
        over.set()
        thread.join()

    return end
