"""A server of one port, with a thread for each client."""

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress


class Listening(ABC):
    """Listens at ``address`` while it is used as a context manager; at its end it waits for all clients."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    @abstractmethod
    def serve(self, client):
        """Serve one client, in a thread of its own; an OSError ends it."""

    @abstractmethod
    def stop(self):
        """Let every ``serve`` end soon; no client comes any more."""

    def __enter__(self):
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.stop()
        for thread in self._threads:
            thread.join()

    def _start(self, target, *arguments):
        self._threads.append(threading.Thread(target=target, args=arguments))  # type: ignore[arg-type]
        self._threads[-1].start()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._serve, client)

    def _serve(self, client):
        with client, suppress(OSError):
            self.serve(client)
