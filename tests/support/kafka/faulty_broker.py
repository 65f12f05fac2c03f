"""A proxy before a real broker, which hands each of its answers on in the way that a test wants."""

import socket
import struct
import threading
from contextlib import suppress

from tests.support.servers.listening import Listening

LENGTH = struct.Struct(">i")
API_KEY = struct.Struct(">4xh")
AUTHENTICATE = 36


class FaultyBroker(Listening):
    """Listens at ``address`` while it is used as a context manager.

    answer: called with this, the client's socket and every frame of the broker; hands it on.
    """

    def __init__(self, broker, answer):
        super().__init__()
        host, _, port = broker.partition(":")
        self._broker = host, int(port)
        self._answer = answer
        self.over = threading.Event()
        self.asked: list[int] = []
        self._brokers: list[socket.socket] = []

    def stop(self):
        self.over.set()
        for broker in self._brokers:  # that may hold a fetch back
            with suppress(OSError):
                broker.shutdown(socket.SHUT_RDWR)

    def serve(self, client):
        with socket.create_connection(self._broker) as broker:
            self._brokers.append(broker)
            for side in client, broker:
                side.settimeout(30)
            while (frame := _frame(client)) is not None:
                self.asked.append(API_KEY.unpack_from(frame)[0])
                broker.sendall(frame)
                if (answer := _frame(broker)) is None:
                    return
                self._answer(self, client, answer)


def hand_on(_, client, frame):
    client.sendall(frame)


def hand_on_with_the_close(_, client, frame):
    """Send the last bytes and the end of the stream in one packet, if the frame tells a refusal."""
    if not is_refusal(frame):
        client.sendall(frame)
        return
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    client.sendall(frame)
    client.shutdown(socket.SHUT_RDWR)


def is_refusal(frame):
    return b"uthentication failed" in frame or frame[8:10] == struct.pack(">h", 33)


def _frame(sock):
    """The next frame with its length; None: the stream has ended."""
    length = _exactly(sock, LENGTH.size)
    if length is None:
        return None
    rest = _exactly(sock, *LENGTH.unpack(length))
    return None if rest is None else length + rest


def _exactly(sock, size):
    found = b""
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            return None
        found += part
    return found
