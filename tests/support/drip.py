"""Servers that answer with given bytes, at once, a byte at a time, or without an end."""

import socket
import threading
from contextlib import contextmanager, suppress

PAUSE_S = 0.05


@contextmanager
def dripping(answer):
    """Answer each connection with these bytes, one after the other; yield the address.

    A whole answer takes PAUSE_S for each byte, so a deadline of less than that passes on any machine.
    """
    over = threading.Event()

    def serve(listening):
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    for byte in answer:
                        if over.wait(PAUSE_S):
                            return
                        connection.sendall(bytes([byte]))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, args=[listening])
        serving.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


@contextmanager
def serving(answer, *, pause_s=0.0, again=False, tls=None):
    """Answer each connection with these bytes, again and again if wanted; yield the port and what was asked."""
    asked: list[bytes] = []
    over = threading.Event()

    def serve():
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with suppress(OSError), tls.wrap_socket(connection, server_side=True) if tls else connection as wrapped:
                    asked.append(wrapped.recv(1 << 16))
                    wrapped.sendall(answer)
                    while again and not over.wait(pause_s):
                        wrapped.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1], asked
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
