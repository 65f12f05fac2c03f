"""Keeps rows in the memory of this process, for the reference connector; other processes reach them by a socket.

A fault is also data: while one is set, every answer is late or damaged, or does not come.
"""

import pickle
import secrets
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from functools import cache
from itertools import accumulate
from multiprocessing.connection import Client, Listener
from typing import ClassVar, NamedTuple

from tidegate.conformance.harness import Fault, Row, Writer
from tidegate.errors import TransientError
from tidegate.readers.retry import Deadline

_SLOW_S = 1.0
_ANSWER_S = 20.0


class Record(NamedTuple):
    """A row and its position; written_ms: when it was appended."""

    position: int
    row: Row
    written_ms: int


class MemoryWriter(Writer):
    """Appends to a split of a store: its records, and None for holes."""

    def __init__(self, store):
        self.entries, self.begin, self.complete = [], 0, False
        self._lock = store.lock
        store.logs[f"split-{len(store.logs)}"] = self

    def append(self, rows):
        now_ms = time.time_ns() // 1_000_000
        with self._lock:
            for row in rows:
                self.entries.append(None if row is None else Record(len(self.entries), row, now_ms))

    def finish(self):
        self.complete = True

    def leave_hole(self):
        self.append([None])

    def trim(self, count):
        with self._lock:
            positions = [record.position for record in self.entries if record is not None]
            self.begin = positions[count] if count < len(positions) else len(self.entries)

    def remove(self):
        with self._lock:
            self.entries, self.begin, self.complete = [], -1, True


class MemoryStore:
    """Splits of rows.  Closed by ``close``."""

    _OPEN: ClassVar = {}

    def __init__(self):
        self.logs = {}
        self.lock = threading.Lock()
        self._name, self.key = secrets.token_hex(4), _KEY
        self.fault = None
        self._answers = 0
        self._OPEN[self._name] = self

    @property
    def address(self):
        """The address for sources in any process of this machine."""
        return f"{self._name}:{self.key}@127.0.0.1:{_served_port()}"

    @classmethod
    def of_this_process(cls, name):
        """Return the store of a name; None: it is another process's, or closed."""
        return cls._OPEN.get(name)

    def close(self):
        self._OPEN.pop(self._name, None)

    @contextmanager
    def failing(self, fault):
        """Answer with a fault until the context ends."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = None

    def splits(self):
        return [name for name, log in self.logs.items() if log.begin >= 0]

    def extents(self, splits):
        """Return begin, end and completeness of the existing splits."""
        with self.lock:
            logs = {name: self.logs[name] for name in splits if name in self.logs}
            return {n: (log.begin, len(log.entries), log.complete) for n, log in logs.items() if log.begin >= 0}

    def records(self, split, start, end, most_bytes=None):
        """Return the rows of a range up to a number of bytes, but at least one."""
        with self.lock:
            log = self.logs[split]
            records = [record for record in log.entries[max(start, log.begin, 0) : end] if record is not None]
        if most_bytes is None:
            return records
        sizes = accumulate(len(record.row.value or "") for record in records)
        return [
            record for n, (record, size) in enumerate(zip(records, sizes, strict=True)) if not n or size <= most_bytes
        ]

    def trim(self, split, count):
        """Delete rows, for a mutant."""
        self.logs[split].trim(count)

    def answer(self, method, arguments):
        """Return a method's answer with a checksum before it, damaged by the present fault."""
        self._answers += 1
        if self.fault in {Fault.DISCONNECT, Fault.CRASH}:
            raise ConnectionResetError("the store is away")
        if self.fault is Fault.SLOW:
            time.sleep(_SLOW_S)  # the fault itself
        body = pickle.dumps(getattr(self, method)(*arguments))
        checked = zlib.crc32(body).to_bytes(4, "big") + body
        if self.fault is Fault.CORRUPT and self._answers % 2:
            return checked[:-1] + bytes([checked[-1] ^ 1])
        return checked


_KEY = secrets.token_hex(16)


@cache
def _served_port():
    """Serve the stores of this process to others, and return the port."""
    listener = Listener(("127.0.0.1", 0), authkey=_KEY.encode())
    threading.Thread(target=_serve, args=[listener], name="memory-stores", daemon=True).start()
    return listener.address[1]


def _serve(listener):
    while True:
        with suppress(Exception):  # someone who does not know the key
            threading.Thread(target=_talk, args=[listener.accept()], name="memory-client", daemon=True).start()


def _talk(connection):
    with connection, suppress(OSError, EOFError, KeyError):  # the client is gone, the store is away or closed
        while True:
            name, method, arguments = connection.recv()
            connection.send_bytes(MemoryStore._OPEN[name].answer(method, arguments))


class StoreClient:
    """Asks a store, without a socket in the process that holds it.  Retries if that may help."""

    def __init__(self, address, deadline_s=20.0):
        self._deadline_s = deadline_s
        name, _, host = address.partition("@")
        self.name, _, self._key = name.partition(":")
        self._host, _, port = host.partition(":")
        self._port = int(port)
        self._connection = None

    def ask(self, method, *arguments):
        """Return a store's answer.  Raises DeadlineError if there is none in time."""
        deadline = Deadline(f"reach the store at {self._host}:{self._port}", self._deadline_s)
        while True:
            try:
                return self._attempt(method, arguments)
            except TransientError as error:  # noqa: PERF203 - the loop is there for this
                self.close()
                deadline.pause(error)

    def close(self):
        """Close the connection; the next question opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(self, method, arguments):
        store = MemoryStore.of_this_process(self.name)
        try:
            checked = self._over_socket(method, arguments) if store is None else store.answer(method, arguments)
        except (OSError, EOFError) as error:
            raise TransientError(str(error) or type(error).__name__) from error
        if zlib.crc32(checked[4:]) != int.from_bytes(checked[:4], "big"):
            raise TransientError("its answer is damaged")
        return pickle.loads(checked[4:])  # noqa: S301 - its key was shown, and it is ours

    def _over_socket(self, method, arguments):
        if self._connection is None:
            self._connection = Client((self._host, self._port), authkey=self._key.encode())
        self._connection.send((self.name, method, arguments))
        if not self._connection.poll(_ANSWER_S):
            raise TransientError("it does not answer")
        return self._connection.recv_bytes()
