"""A cluster whose clients reach it by forwarded ports, of which a network split cuts one: nothing passes there."""

import socket
import threading
from contextlib import suppress

from tests.support.servers.listening import Listening
from tidegate.servers import KafkaServer
from tidegate.servers.server import HOST, free_ports


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
