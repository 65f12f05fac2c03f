"""Proxies before real brokers: one changes their answers, others cut the network between them and their clients."""

import socket
import struct
import threading
from contextlib import suppress

from tests.support.servers.stub import Listening
from tidegate.servers import KafkaServer
from tidegate.servers.server import HOST, free_ports

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
    remainder = _exactly(sock, *LENGTH.unpack(length))
    return None if remainder is None else length + remainder


def _exactly(sock, size):
    found = b""
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            return None
        found += part
    return found


class ForwardedPort(Listening):
    """Forwards ``address`` to a port of this machine, while it is used as a context manager."""

    def __init__(self, port):
        super().__init__()
        self.port = port
        self._open = []
        self._whole = threading.Event()
        self._whole.set()
        self.held = 0

    def cut(self):
        """Let no byte pass until ``heal``, and tell nobody."""
        self._whole.clear()

    def heal(self):
        """Let all bytes pass, also those that were held."""
        self._whole.set()

    def stop(self):
        self.heal()
        for opened in self._open:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def serve(self, client):
        self._pass()
        with socket.create_connection((HOST, self.port)) as broker:
            self._open += [client, broker]
            back = threading.Thread(target=self._copy, args=(broker, client))
            back.start()
            self._copy(client, broker)
            back.join()

    def _copy(self, source, target):
        with suppress(OSError):
            while part := source.recv(1 << 16):
                self._pass()
                target.sendall(part)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def _pass(self):
        if not self._whole.is_set():
            self.held += 1
            self._whole.wait()


class SplitCluster(KafkaServer):
    """Brokers that advertise forwarded ports, too, for the clients of ``far_servers``."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.far = {
            node: ForwardedPort(port) for node, port in zip(self._ports, free_ports(len(self._ports)), strict=True)
        }

    @property
    def far_servers(self):
        return ",".join(way.address for way in self.far.values())

    def __enter__(self):
        started = super().__enter__()
        for way in self.far.values():
            way.__enter__()
        return started

    def __exit__(self, *error):
        super().__exit__(*error)
        for way in self.far.values():
            way.__exit__()

    def _write_settings(self, node, home):
        path = super()._write_settings(node, home)
        known = dict(line.split("=", 1) for line in path.read_text().splitlines())
        ours = {
            "listeners": f"{known['listeners']},FAR://{HOST}:{self.far[node].port}",
            "advertised.listeners": f"PLAINTEXT://{self.address(node)},FAR://{self.far[node].address}",
            "listener.security.protocol.map": f"{known['listener.security.protocol.map']},FAR:PLAINTEXT",
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in (known | ours).items()))
        return path
