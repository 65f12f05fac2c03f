"""Brokers are reached through proxies, which may require a login, or refuse."""

from __future__ import annotations

import base64
import socket
import struct
import threading
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tidegate.errors import ConnectorError, DeadlineError
from tidegate.readers.kafka.client import KafkaClient
from tidegate.readers.kafka.config import KafkaConnectionConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from tests.support.kafka.lab import Lab

    Answering: TypeAlias = Callable[[socket.socket], tuple[str, int] | None]

SECRET = "hunter/2@home"  # noqa: S105 - the password of a proxy that lives for seconds
SECRET_IN_URL = "hunter%2F2%40home"  # noqa: S105


class Proxy(NamedTuple):
    address: str
    clients: list[socket.socket]

    def config(self, scheme: str, login: str = f"me:{SECRET_IN_URL}@", deadline_s: float = 20) -> KafkaConnectionConfig:
        return KafkaConnectionConfig(
            "broker.test:9092", {"proxy_url": f"{scheme}://{login}{self.address}"}, deadline_s=deadline_s
        )


def asked_to_connect(client: socket.socket) -> bytes:
    asked = b""
    while b"\r\n\r\n" not in asked:
        part = client.recv(1)
        if not part:
            raise ConnectionError("the client left")
        asked += part
    return asked


def connect_proxy(client: socket.socket, yes: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> tuple[str, int] | None:
    """HTTP's CONNECT, for one user."""
    asked = asked_to_connect(client)
    if base64.b64encode(f"me:{SECRET}".encode()) not in asked:
        client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        return None
    client.sendall(yes)
    host, _, port = asked.split()[1].decode().partition(":")
    return host, int(port)


def exactly(client: socket.socket, size: int) -> bytes:
    return client.recv(size, socket.MSG_WAITALL)


def socks_proxy(client: socket.socket, reply: int = 0, bound: bytes = b"\1" + bytes(6)) -> tuple[str, int] | None:
    """SOCKS 5, for one user, by address or by name."""
    _, count = exactly(client, 2)
    if 2 not in exactly(client, count):
        client.sendall(b"\5\xff")
        return None
    client.sendall(b"\5\2")
    (size,) = exactly(client, 2)[1:]
    exactly(client, size)
    password = exactly(client, *exactly(client, 1))
    client.sendall(b"\1\0" if password.decode() == SECRET else b"\1\1")
    if password.decode() != SECRET:
        return None
    *_, kind = exactly(client, 4)
    host = socket.inet_ntoa(exactly(client, 4)) if kind == 1 else exactly(client, *exactly(client, 1)).decode()
    target = host, *struct.unpack(">H", exactly(client, 2))
    client.sendall(bytes([5, reply, 0]) + bound)
    return None if reply else target


def http_status(status: bytes, client: socket.socket) -> None:
    """HTTP's CONNECT, refused."""
    asked_to_connect(client)
    client.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")


def echo(status: bytes, client: socket.socket) -> None:
    """HTTP's CONNECT, with a refusal that repeats the request."""
    login = asked_to_connect(client).rpartition(b"Basic ")[2].strip()
    words = b"%s from %s (%s)" % (login, base64.b64decode(login), b"x" * 70 + login)
    client.sendall(b"HTTP/1.1 " + status + b" " + words + b"\r\n\r\n")


@contextmanager
def serving(proxy: Answering) -> Iterator[Proxy]:
    threads = []
    clients: list[socket.socket] = []

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
                clients.append(client)
                threads.append(threading.Thread(target=serve, args=(client,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept, args=(listener,))
        accepting.start()
        try:
            yield Proxy(f"127.0.0.1:{listener.getsockname()[1]}", clients)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in accepting, *threads:
                thread.join()


PROXIES = [("http", connect_proxy), ("socks5", socks_proxy), ("socks5h", socks_proxy)]


@pytest.mark.parametrize(
    ("scheme", "answer"),
    [
        *PROXIES,
        ("http", partial(connect_proxy, yes=b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 204\r\nVia: it\r\n\r\n")),
        ("socks5h", partial(socks_proxy, bound=b"\3\4name" + bytes(2))),
        ("socks5h", partial(socks_proxy, bound=b"\4" + bytes(18))),
    ],
)
def test_a_broker_is_reached_through_a_proxy(lab: Lab, scheme: str, answer: Answering) -> None:
    topic = lab.new_topic()
    with serving(answer) as proxy:
        config = lab.config(properties={"proxy_url": f"{scheme}://me:{SECRET_IN_URL}@{proxy.address}"}, deadline_s=20)
        with KafkaClient(config) as client:
            assert client.partitions([topic]) == {topic: (0,)}


def test_an_address_of_ipv6_is_named_as_one() -> None:
    asked = []

    def listening(client: socket.socket) -> None:
        asked.append(asked_to_connect(client).splitlines()[0])
        client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    def socks(client: socket.socket) -> None:
        exactly(client, 3)
        client.sendall(b"\5\0")
        asked.append(exactly(client, 4 + 16 + 2))
        client.sendall(b"\5\2")

    for scheme, answer in (("http", listening), ("socks5h", socks)):
        with serving(answer) as proxy:
            config = KafkaConnectionConfig("[::1]:9092", {"proxy_url": f"{scheme}://{proxy.address}"}, deadline_s=20)
            with KafkaClient(config) as client, pytest.raises(ConnectorError, match="does not let us through"):
                client.partitions()
    assert asked == [b"CONNECT [::1]:9092 HTTP/1.1", b"\5\1\0\4" + bytes(15) + b"\1" + struct.pack(">H", 9092)]


@pytest.mark.parametrize(
    ("scheme", "answer", "login", "reason"),
    [
        ("http", connect_proxy, "me:swordfish@", "the proxy refuses the login (407 Proxy Authentication Required)"),
        ("http", connect_proxy, "", "the proxy wants a login (407 Proxy Authentication Required)"),
        ("http", connect_proxy, "me@", "the proxy refuses the login (407 Proxy Authentication Required)"),
        ("socks5h", socks_proxy, "me:swordfish@", "the proxy refuses the login"),
        ("socks5h", socks_proxy, "", "the proxy wants a login"),
        ("http", partial(http_status, b"403 Forbidden"), "", "the proxy does not let us through (403 Forbidden)"),
        ("http", partial(http_status, b"501"), "", "the proxy does not let us through (501)"),
        (
            "socks5h",
            partial(socks_proxy, reply=2),
            f"me:{SECRET_IN_URL}@",
            "the proxy does not let us through (its rules forbid it)",
        ),
        ("http", lambda client: client.sendall(b"\5\xff"), "", "the proxy does not speak HTTP"),
        (
            "socks5h",
            lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "",
            "the proxy does not speak SOCKS 5",
        ),
    ],
)
def test_a_refusal_of_the_proxy_is_reported_at_once_and_not_asked_for_again(
    scheme: str, answer: Answering, login: str, reason: str
) -> None:
    with serving(answer) as proxy, KafkaClient(proxy.config(scheme, login)) as client:
        for _ in range(2):
            with pytest.raises(ConnectorError) as raised:
                client.partitions()
            assert not isinstance(raised.value, DeadlineError)
            assert str(raised.value) == f"cannot connect to broker.test:9092: {reason}; look at kafka.proxy.url"
        assert len(proxy.clients) == 1


def test_of_several_addresses_none_repeats_a_refused_login() -> None:
    with serving(socks_proxy) as proxy:
        config = KafkaConnectionConfig(  # two bootstrap servers; the second usually has two addresses
            "127.0.0.1:1,localhost:1", {"proxy_url": f"socks5://me:swordfish@{proxy.address}"}, deadline_s=20
        )
        with KafkaClient(config) as client, pytest.raises(ConnectorError, match="the proxy refuses the login"):
            client.partitions()
        assert len(proxy.clients) == 1


@pytest.mark.parametrize(
    ("scheme", "answer", "reason"),
    [
        ("http", partial(http_status, b"503 Service Unavailable"), "(503 Service Unavailable)"),
        ("http", partial(http_status, b"429 Too Many Requests"), "(429 Too Many Requests)"),
        ("socks5h", partial(socks_proxy, reply=5), "(the connection is refused)"),
        ("socks5h", partial(socks_proxy, reply=91), "(reply 91)"),
    ],
)
def test_a_proxy_that_does_not_reach_the_broker_now_is_asked_again(scheme: str, answer: Answering, reason: str) -> None:
    with serving(answer) as proxy, KafkaClient(proxy.config(scheme, deadline_s=1)) as client:
        with pytest.raises(DeadlineError) as raised:
            client.partitions()
        assert f"cannot connect to broker.test:9092: the proxy does not reach it {reason}" in str(raised.value)
        assert SECRET not in str(raised.value)
        assert SECRET_IN_URL not in str(raised.value)
        assert len(proxy.clients) > 1


def test_a_proxy_that_cannot_be_reached_is_distinguished_from_a_broker_that_cannot() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    config = KafkaConnectionConfig("broker.test:9092", {"proxy_url": f"http://127.0.0.1:{free}"}, deadline_s=0.5)
    with (
        KafkaClient(config) as client,
        pytest.raises(DeadlineError, match="cannot be reached: Connection refused"),
    ):
        client.partitions()


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_that_never_answers_does_not_hang_the_client(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        proxy = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        config = KafkaConnectionConfig("localhost:9092", {"proxy_url": proxy}, deadline_s=0.5)
        with KafkaClient(config) as client, pytest.raises(DeadlineError, match="the proxy does not answer"):
            client.partitions()


@pytest.mark.parametrize("status", [b"403", b"407", b"503"])
def test_a_proxy_that_repeats_what_it_received_does_not_make_us_show_the_login(status: bytes) -> None:
    with serving(partial(echo, status)) as proxy:
        config = proxy.config("http", deadline_s=1)
        with KafkaClient(config) as client, pytest.raises(ConnectorError, match=status.decode()) as caught:
            client.partitions(["t"])
    message, login = str(caught.value), base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert SECRET not in message
    assert login[:6] not in message
