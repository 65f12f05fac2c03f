"""The base of the servers, which starts, kills, restarts and stops them."""

from __future__ import annotations

import random
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from tidegate.errors import ServerError
from tidegate.servers.java import java_command
from tidegate.servers.process import Sandbox, ServerProcess

HOST = "127.0.0.1"


class Server(ABC):
    """The base of the servers: a context manager that leaves no process, port or temporary folder behind.

    A server has one or several nodes.  Each is a Java process with a port of 127.0.0.1, and all are in one
    :class:`~tidegate.servers.process.Sandbox`.

    ports: the ports of the nodes, whose ids are 1, 2 and so on.
    folder: the caller's folder, which stays; None: all data is removed with the server.
    timeout_seconds: the maximum time of each wait, such as a start.
    """

    def __init__(self, name: str, ports: Iterable[int], folder: str | Path | None, timeout_seconds: float = 60) -> None:
        self._name = name
        self._ports = dict(enumerate(ports, start=1))
        self._folder = None if folder is None else Path(folder).absolute()
        self._timeout_seconds = timeout_seconds
        self._running: dict[int, ServerProcess] = {}
        self._sandbox: Sandbox | None = None

    @property
    def pids(self) -> dict[int, int]:
        """The process ids of the nodes that run, by node id."""
        return {node: process.pid for node, process in self._running.items() if process.exit_code is None}

    @property
    def is_whole(self) -> bool:
        """Whether all nodes run."""
        return len(self.pids) == len(self._ports)

    def start(self) -> Self:
        """Start the nodes that do not run, and return when all are ready.

        Raises ServerError if the jars or Java are missing, if another program uses a port, or if a node is not ready
        in time.
        """
        self._start_nodes([node for node in self._ports if node not in self.pids])
        return self

    def kill(self, node: int | None = None) -> None:
        """Kill one node, or all, with SIGKILL, as a crash would; the data stays for :meth:`restart`."""
        for name in self.pids if node is None else [node]:
            self._running[name].end()

    def restart(self, node: int | None = None) -> None:
        """Kill one node, or all, and start them again with the same ports and the same data."""
        self.kill(node)
        self._start_nodes([*self._ports] if node is None else [node])

    def stop(self) -> None:
        """End all processes, and remove the temporary folder; may be called repeatedly.

        With a ``folder`` of the caller, the nodes shut down properly, so that the next start need not recover.
        """
        if self._sandbox is None:
            return
        sandbox, self._sandbox = self._sandbox, None
        running, self._running = self._running, {}
        with sandbox:
            if self._folder is not None:
                # The others may need the first node for their shutdown.
                for node in sorted(running, reverse=True):
                    running[node].end(signal.SIGTERM, self._timeout_seconds)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_nodes(self, nodes: list[int]) -> None:
        try:
            for node in nodes:
                _require_free(self._ports[node])
            self._sandbox = self._sandbox or Sandbox(prefix=f"tidegate-{self._name}-")
            self._start(self._sandbox, nodes)
        except BaseException:
            self.stop()
            raise

    @abstractmethod
    def _start(self, sandbox: Sandbox, nodes: list[int]) -> None:
        """Start these nodes, which do not run, and return when all are ready."""

    def _java(self, sandbox: Sandbox, *options: str) -> list[str]:
        temporary = sandbox.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        return [*java_command(temporary), *options]

    def _await(self, ready: Callable[[], bool], node: int = 1) -> None:
        self._running[node].wait_until(ready, self._timeout_seconds)

    def _await_port(self, node: int = 1) -> None:
        self._await(partial(accepts, self._ports[node]), node)


def free_ports(count: int, besides: Container[int] = ()) -> list[int]:
    """Return free ports, but none of ``besides``, below the range from which the system takes ports for connections.

    In that range, a client that reconnects while the server is down may get the server's port.  It would connect to
    itself, and the server could not start again.
    """
    ports: set[int] = set()
    while len(ports) < count:
        port = random.randrange(10_000, 32_000)  # noqa: S311 - a port is no secret
        if port in besides:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            ports.add(port)
    return sorted(ports)


def _require_free(port: int) -> None:
    """Raise ServerError if another program listens at a port, since it would be taken for the server."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ignore connections that have ended
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "the last port is 65535"
            raise ServerError(f"port {port} of {HOST} cannot be used: {reason}; choose another port") from error


def accepts(port: int) -> bool:
    """Return whether something listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
