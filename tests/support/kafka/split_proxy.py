"""A proxy for clients, which a network split cuts from one broker: nothing passes, and nobody is told."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tests.support.kafka.listening import Listening


class SplitProxy(Listening):
    """HTTP's CONNECT at ``url``, while it is used as a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self._cut: set[int] = set()
        self._open: list[socket.socket] = []
        self._healed = threading.Condition()
        self._is_over = False
        self.held = 0
        self.url = f"http://{self.address}"

    def cut(self, address: str) -> None:
        """Let no byte pass to or from a broker until ``heal``."""
        with self._healed:
            self._cut.add(int(address.rpartition(":")[2]))

    def heal(self) -> None:
        """Let all bytes pass, also those that were held."""
        with self._healed:
            self._cut.clear()
            self._healed.notify_all()

    def stop(self) -> None:
        self._is_over = True
        self.heal()
        for opened in self._open:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def serve(self, client: socket.socket) -> None:
        asked = b""
        while not asked.endswith(b"\r\n\r\n"):
            asked += client.recv(1) or b"\r\n\r\n"
        host, _, port = asked.split()[1].decode().partition(":")
        self._pass(int(port))
        with socket.create_connection((host, int(port))) as broker:
            self._open += [client, broker]
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self._copy, args=(broker, client, int(port)))
            back.start()
            self._copy(client, broker, int(port))
            back.join()

    def _copy(self, source: socket.socket, target: socket.socket, port: int) -> None:
        with suppress(OSError):
            while part := source.recv(1 << 16):
                self._pass(port)
                target.sendall(part)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def _pass(self, port: int) -> None:
        with self._healed:
            if port in self._cut:
                self.held += 1
                self._healed.wait_for(lambda: port not in self._cut or self._is_over)
