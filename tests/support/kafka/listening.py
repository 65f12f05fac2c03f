"""A server of one port, with a thread for each client."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Listening(ABC):
    """Listens at ``address`` while it is used as a context manager; at its end it waits for all clients."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    @abstractmethod
    def serve(self, client: socket.socket) -> None:
        """Serve one client, in a thread of its own; an OSError ends it."""

    @abstractmethod
    def stop(self) -> None:
        """Let every ``serve`` end soon; no client comes any more."""

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.stop()
        for thread in self._threads:
            thread.join()

    def _start(self, target: object, *arguments: object) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments))  # type: ignore[arg-type]
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            self.serve(client)
