"""Opens TCP connections to brokers, directly or through a proxy.

The proxies are HTTP's CONNECT (RFC 9110) and SOCKS 5 (RFC 1928, RFC 1929).  kafka-python's own (``kafka.net``, as of
3.0) do not keep our promises:

- Every refusal is a refused connection.  Then it is unknown which login must not be sent again.
- A login is sent with its percent-encoding, and an IPv6 address without brackets.
- While SOCKS waits for an answer, it takes a whole core, and an answer with a name breaks off.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import socket
import struct
import time
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from tidegate.readers.kafka.wire.frames import remaining_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ProxyError", "connected"]

Target = TypeVar("Target")

SOCKET_OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
LARGEST_HEAD = 64 << 10
LONGEST_REASON = 100
LONGEST_OF_SOCKS = 255
_STATUS_LINE = re.compile(rb"HTTP/\d\.\d (\d{3})([^\r\n]*)\r?\n")
_STATUS_THAT_MAY_HEAL = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_SOCKS = 5
_NO_LOGIN, _USER_AND_PASSWORD = 0, 2
_IPV4, _NAME, _IPV6 = 1, 3, 4
_SOCKS_REPLIES = {
    1: "a general failure",
    2: "its rules forbid it",
    3: "the network is unreachable",
    4: "the host is unreachable",
    5: "the connection is refused",
    6: "the TTL expired",
    7: "it does not connect to others",
    8: "it takes no such address",
}
_SOCKS_REPLIES_THAT_LAST = {2, 7, 8}


class ProxyError(Exception):
    """A proxy does not let us through; a refused login must not be sent again."""

    def __init__(self, sentence: str, *, may_heal: bool = False, is_of_login: bool = False) -> None:
        super().__init__(sentence)
        self.may_heal = may_heal
        self.is_of_login = is_of_login


def connected(
    host: str, port: int, proxy_url: str | None, deadline: float, buffers: Sequence[int] = (-1, -1)
) -> socket.socket:
    """Return a TCP connection to a broker, through the proxy if there is one.

    deadline: a time of ``time.monotonic()``.  The addresses of a name share the time until then.
    buffers: bytes of the socket's buffers for sending and receiving; -1: the system decides.

    Raises OSError, and ProxyError if the proxy fails.
    """
    if proxy_url is None:
        return _open(host, port, deadline, buffers)
    proxy = _Proxy.of(proxy_url, buffers)
    targets = [(host, port)]
    if proxy.scheme == "socks5":  # the others look up the name themselves
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        targets = [(str(address[0]), port) for *_, address in addresses]
    return _first(targets, proxy.connect, deadline)


def _open(host: str, port: int, deadline: float, buffers: Sequence[int]) -> socket.socket:
    targets = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return _first(targets, lambda target, until: _open_one(target, until, buffers), deadline)


def _open_one(target: tuple[Any, ...], deadline: float, buffers: Sequence[int]) -> socket.socket:
    family, kind, protocol, _, address = target
    sock = socket.socket(family, kind, protocol)
    try:
        for option in SOCKET_OPTIONS:
            sock.setsockopt(*option)
        # This comes before the connection, which fixes the largest possible window.
        for kind, size in zip((socket.SO_SNDBUF, socket.SO_RCVBUF), buffers, strict=True):
            if size > 0:
                sock.setsockopt(socket.SOL_SOCKET, kind, size)
        sock.settimeout(remaining_s(deadline))
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _first(
    targets: Sequence[Target], connect: Callable[[Target, float], socket.socket], deadline: float
) -> socket.socket:
    failed: Exception = ConnectionError("its name is not known")
    for number, target in enumerate(targets):
        share_s = remaining_s(deadline) / (len(targets) - number)
        try:
            return connect(target, time.monotonic() + share_s)
        except OSError as error:
            failed = error
        except ProxyError as error:
            if error.is_of_login:
                raise
            failed = error
    raise failed


class _Proxy(NamedTuple):
    scheme: str
    host: str
    port: int
    user: str | None
    password: str
    buffers: Sequence[int]

    @classmethod
    def of(cls, url: str, buffers: Sequence[int]) -> _Proxy:
        malformed = ProxyError("the proxy's URL is invalid: it needs http, socks5 or socks5h, a host and a port")
        try:
            split = urlsplit(url)
            host, port = split.hostname, split.port
        except ValueError:
            raise malformed from None  # this error would show the URL with its password
        if split.scheme not in {"http", "socks5", "socks5h"} or not host or not port:
            raise malformed
        user, password = unquote(split.username or ""), unquote(split.password or "")
        return cls(split.scheme, host, port, user or None, password, buffers)

    def connect(self, target: tuple[str, int], deadline: float) -> socket.socket:
        try:
            sock = _open(self.host, self.port, deadline, self.buffers)
        except TimeoutError:
            raise TimeoutError("the proxy does not answer") from None
        except OSError as error:
            raise ProxyError(f"the proxy cannot be reached: {error.strerror or error}", may_heal=True) from error
        try:
            ask = _Asking(sock, deadline)
            (self._ask_http if self.scheme == "http" else self._ask_socks)(ask, *target)
        except BaseException:
            sock.close()
            raise
        return sock

    def _ask_http(self, ask: _Asking, host: str, port: int) -> None:
        authority = f"[{host}]:{port}" if ":" in host else f"{host.encode('idna').decode()}:{port}"
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if self.user is not None:
            login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {login}")
        ask.send("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        code, words = ask.http_status()
        while code // 100 == 1:  # the final status follows
            code, words = ask.http_status()
        if self.user is not None:  # its words may repeat the login, whole or in part
            words = next((status.phrase for status in HTTPStatus if status == code), "")
        answer = f"{code} {words}".strip()
        if code == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            sentence = "the proxy wants a login" if self.user is None else "the proxy refuses the login"
            raise ProxyError(f"{sentence} ({answer})", is_of_login=True)
        if code // 100 != 2:  # each of these opens the tunnel
            raise _not_let_through(answer, may_heal=code in _STATUS_THAT_MAY_HEAL)

    def _ask_socks(self, ask: _Asking, host: str, port: int) -> None:
        offered = _NO_LOGIN if self.user is None else _USER_AND_PASSWORD
        ask.send(bytes([_SOCKS, 1, offered]))
        version, method = ask.receive(2)
        if version != _SOCKS:
            raise ProxyError("the proxy does not speak SOCKS 5")
        if method not in {_NO_LOGIN, offered}:
            wanted = "wants a login" if self.user is None else "takes no login by user and password"
            raise ProxyError(f"the proxy {wanted}", is_of_login=True)
        if method == _USER_AND_PASSWORD:
            self._log_in_to_socks(ask)
        ask.send(bytes([_SOCKS, 1, 0]) + _socks_address(host) + struct.pack(">H", port))
        version, reply = ask.receive(2)
        if reply:
            answer = _SOCKS_REPLIES.get(reply, f"reply {reply}")
            raise _not_let_through(answer, may_heal=reply not in _SOCKS_REPLIES_THAT_LAST)
        # The broker's own bytes begin after the address from which the proxy reaches the broker.
        _, kind = ask.receive(2)
        sizes = {_IPV4: 4, _IPV6: 16}
        ask.receive((ask.receive(1)[0] if kind == _NAME else sizes.get(kind, 4)) + 2)

    def _log_in_to_socks(self, ask: _Asking) -> None:
        login = b"\1"
        for text in (self.user or "", self.password):
            part = text.encode()
            if len(part) > LONGEST_OF_SOCKS:
                raise ProxyError("SOCKS 5 takes at most 255 bytes of a user and of a password", is_of_login=True)
            login += bytes([len(part)]) + part
        ask.send(login)
        _, refusal = ask.receive(2)
        if refusal:
            raise ProxyError("the proxy refuses the login", is_of_login=True)


class _Asking:
    """The dialogue with a proxy, which ends where the broker's bytes may begin."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._socket = sock
        self._deadline = deadline

    def send(self, message: bytes) -> None:
        # A proxy that closes the connection may have sent the reason, which comes next.
        with suppress(ConnectionError):
            self._socket.settimeout(remaining_s(self._deadline))
            self._socket.sendall(message)

    def receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            try:
                self._socket.settimeout(remaining_s(self._deadline))
                part = self._socket.recv(size - len(received))
            except TimeoutError:
                raise TimeoutError("the proxy does not answer") from None
            except OSError:
                part = b""
            if not part:
                raise ProxyError("the proxy closed the connection", may_heal=True)
            received += part
        return received

    def http_status(self) -> tuple[int, str]:
        """Return the code of an answer, and the proxy's words."""
        head = b""
        while not head.endswith((b"\r\n\r\n", b"\n\n")) and len(head) < LARGEST_HEAD:
            head += self.receive(1)
            if not b"HTTP/".startswith(head[:5]):
                break
        if (line := _STATUS_LINE.match(head)) is None:
            raise ProxyError("the proxy does not speak HTTP")
        words = "".join(filter(str.isprintable, line[2].decode(errors="replace")))
        return int(line[1]), words[:LONGEST_REASON].strip()


def _not_let_through(answer: str, *, may_heal: bool) -> ProxyError:
    clause = "does not reach it" if may_heal else "does not let us through"
    return ProxyError(f"the proxy {clause} ({answer})", may_heal=may_heal)


def _socks_address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        return bytes([_NAME, len(name)]) + name
    return bytes([_IPV4 if address.version == 4 else _IPV6]) + address.packed
