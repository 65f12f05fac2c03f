"""Brokers are reached through proxies, which may want a login of their own."""

from __future__ import annotations

import base64
import socket
import struct
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import DeadlineError
from tidegate.readers.kafka_client import KafkaClient
from tidegate.readers.kafka_config import KafkaConnectionConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.readers.lab import Lab

SECRET = "hunter2"  # noqa: S105 - of a proxy that lives for seconds


def connect_proxy(client: socket.socket) -> tuple[str, int] | None:
    """HTTP's CONNECT, for one user."""
    asked = b""
    while b"\r\n\r\n" not in asked:
        asked += client.recv(1)
    if base64.b64encode(f"me:{SECRET}".encode()) not in asked:
        client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        return None
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    host, _, port = asked.split()[1].decode().partition(":")
    return host, int(port)


def socks_proxy(client: socket.socket) -> tuple[str, int] | None:
    """SOCKS 5, for one user, by address or by name."""
    exactly = lambda size: client.recv(size, socket.MSG_WAITALL)  # noqa: E731
    exactly(3)
    client.sendall(b"\5\2")
    (size,) = exactly(2)[1:]
    exactly(size)
    password = exactly(*exactly(1))
    client.sendall(b"\1\0" if password.decode() == SECRET else b"\1\1")
    if password.decode() != SECRET:
        return None
    *_, kind = exactly(4)
    host = socket.inet_ntoa(exactly(4)) if kind == 1 else exactly(*exactly(1)).decode()
    client.sendall(b"\5\0\0\1" + bytes(6))
    return host, *struct.unpack(">H", exactly(2))


@contextmanager
def serving(proxy: Callable[[socket.socket], tuple[str, int] | None]) -> Iterator[str]:
    threads = []

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(1 << 16):
                target.sendall(part)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError, IndexError, ValueError, TypeError):
            if (target := proxy(client)) is not None:
                with socket.create_connection(target) as broker:
                    back = threading.Thread(target=copy, args=(broker, client))
                    back.start()
                    copy(client, broker)
                    back.join()

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(client,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept, args=(listener,))
        accepting.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for each in accepting, *threads:
                each.join()


PROXIES = [("http", connect_proxy), ("socks5", socks_proxy), ("socks5h", socks_proxy)]


@pytest.mark.parametrize(("scheme", "proxy"), PROXIES)
def test_a_broker_is_reached_through_a_proxy(
    lab: Lab, scheme: str, proxy: Callable[[socket.socket], tuple[str, int] | None]
) -> None:
    topic = lab.new_topic()
    with serving(proxy) as address:
        config = lab.config(properties={"proxy_url": f"{scheme}://me:{SECRET}@{address}"}, deadline_s=20)
        with KafkaClient(config) as client:
            assert client.partitions([topic]) == {topic: (0,)}


@pytest.mark.parametrize(("scheme", "proxy"), PROXIES)
def test_a_proxy_that_refuses_is_told_without_its_login(
    lab: Lab, scheme: str, proxy: Callable[[socket.socket], tuple[str, int] | None]
) -> None:
    with serving(proxy) as address:
        config = lab.config(properties={"proxy_url": f"{scheme}://me:swordfish@{address}"}, deadline_s=3)
        with KafkaClient(config) as client, pytest.raises(DeadlineError, match="the proxy does not let") as raised:
            client.partitions()
    assert "swordfish" not in str(raised.value)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_that_never_answers_does_not_hang_the_client(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        proxy = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        config = KafkaConnectionConfig("localhost:9092", {"proxy_url": proxy}, deadline_s=0.5)
        with KafkaClient(config) as client, pytest.raises(DeadlineError, match="it does not answer"):
            client.partitions()
