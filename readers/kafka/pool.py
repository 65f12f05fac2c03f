"""Keeps clients for the next task of a worker process: their connections for a while, their knowledge for longer."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.readers.kafka.client import KafkaClient
from tidegate.readers.kafka.config import KafkaConnectionConfig

MOST_IDLE = 8
IDLE_SECONDS = 5.0  # Spark does not tell a worker that its query has stopped


class ClientPool:
    """Lends a client to one reader at a time, and closes all idle clients after a while.

    A closed client still knows the leaders of its partitions, and connects again when it is lent.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._begin()

    def _begin(self) -> None:
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[KafkaClient] = []
        self._timer: threading.Timer | None = None

    @contextmanager
    def lend(self, config: KafkaConnectionConfig) -> Iterator[KafkaClient]:
        """Lend a client for ``config``, an idle one if there is any."""
        client = self._take(config)
        try:
            yield client
        finally:
            self._return(client)

    def close(self) -> None:
        """Close the idle clients."""
        with self._lock:
            for client in self._idle:
                client.close()

    def _take(self, config: KafkaConnectionConfig) -> KafkaClient:
        if self._process_id != os.getpid():
            # Spark forks its workers: this process must not use its parent's sockets.
            inherited = self._idle
            self._begin()
            for client in inherited:
                client.close()
        with self._lock:
            pooled = next((idle for idle in self._idle if idle.config == config), None)
            if pooled is not None:
                self._idle.remove(pooled)
        return pooled or KafkaClient(config)

    def _return(self, client: KafkaClient) -> None:
        with self._lock:
            self._idle.append(client)
            if len(self._idle) > MOST_IDLE:
                self._idle.pop(0).close()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(self._idle_seconds, self.close)
            self._timer.daemon = True
            self._timer.start()


idle_clients = ClientPool()
atexit.register(idle_clients.close)
