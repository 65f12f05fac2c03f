"""Events over real sockets: who may send them, and what happens to damaged ones."""

import socket
import threading
from contextlib import ExitStack

import pytest

from tests.support.command import PATIENCE_S, await_that
from tidegate.enumerators.events import server as receiving
from tidegate.enumerators.events.server import EventServer
from tidegate.readers.events import event as sending
from tidegate.readers.events.event import NONCE_BYTES, WATERMARK, EventChannel, SourceEvent, message, send

EVENTS = [SourceEvent("orders-0", 3, 9, {"watermark": 17}, batch=4), SourceEvent("orders-1", 0, 2, {"idle": True})]


@pytest.fixture
def server():
    server = EventServer("127.0.0.1")
    yield server
    server.close()


def answer(channel, damage):
    """Return the server's answer to a damaged message, until it closes the connection."""
    with socket.create_connection((channel.host, channel.port), 10) as connection:
        nonce = connection.recv(NONCE_BYTES, socket.MSG_WAITALL)
        connection.sendall(damage(message(channel.token, nonce, EVENTS)))
        try:
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(10)
        except OSError:  # it was closed before all bytes were read
            return b""


def test_events_arrive_once_and_in_order(server):
    assert send(server.channel, EVENTS)
    assert send(server.channel, EVENTS[:1])
    assert server.take(WATERMARK) == [*EVENTS, EVENTS[0]]
    assert server.take(WATERMARK) == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n", "a message of 1195725856 bytes"),
        (lambda data: data[:-1], "ends after"),
        (lambda data: data[:2], "ends after 2 of 4 bytes"),
        (lambda data: b"", "ends after 0 of 4 bytes"),
        (lambda data: data[:38] + b"?" + data[39:], "without the token"),
        (lambda data: data[:10] + b"?" + data[11:], "without the token"),
    ],
)
def test_bytes_that_are_no_events_are_refused(server, caplog, damage, reason):
    assert answer(server.channel, damage) == b""
    await_that(lambda: reason in caplog.text, state=lambda: caplog.text)
    assert server.take(WATERMARK) == []
    assert send(server.channel, EVENTS)


def test_strangers_who_hold_connections_keep_nobody_out(server):
    with ExitStack() as held:
        for _ in range(100):
            held.enter_context(socket.create_connection((server.channel.host, server.channel.port), 10))
        assert send(server.channel, EVENTS)
    assert server.take(WATERMARK) == EVENTS


def test_a_connection_that_says_nothing_is_closed(server, monkeypatch):
    monkeypatch.setattr(receiving._Connection, "timeout", 0.1)
    with socket.create_connection((server.channel.host, server.channel.port), PATIENCE_S) as silent:
        assert len(silent.recv(NONCE_BYTES, socket.MSG_WAITALL)) == NONCE_BYTES
        assert silent.recv(1) == b""


def test_a_message_that_was_overheard_is_no_use(server, caplog):
    with socket.create_connection((server.channel.host, server.channel.port), 10) as connection:
        overheard = message(server.channel.token, connection.recv(NONCE_BYTES, socket.MSG_WAITALL), EVENTS)
    assert answer(server.channel, lambda _: overheard) == b""
    await_that(lambda: "without the token" in caplog.text, state=lambda: caplog.text)


def test_it_listens_at_an_address_of_ipv6():
    server = EventServer("::1")
    assert send(server.channel, EVENTS)
    server.close()


def test_a_closed_server_leaves_no_thread_and_no_port(server):
    others = {thread for thread in threading.enumerate() if "source events" not in thread.name}
    send(server.channel, EVENTS)
    server.close()
    server.close()
    await_that(lambda: set(threading.enumerate()) <= others, state=threading.enumerate)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.channel.host, server.channel.port), 10)


def test_after_a_failure_no_task_waits_for_the_coordinator_for_a_while(server, monkeypatch, caplog):
    monkeypatch.setattr(sending, "_failed_at_s", {})
    server.close()
    assert not send(server.channel, EVENTS)
    assert not send(server.channel, EVENTS)
    assert caplog.text.count("takes no source events") == 1


def test_an_address_that_does_not_answer_costs_a_warning_and_one_wait(monkeypatch, caplog):
    monkeypatch.setattr(sending, "_failed_at_s", {})
    monkeypatch.setattr(sending, "_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as behind_a_firewall:
        address = behind_a_firewall.getsockname()
        # Its queue is full, so it answers nobody else, as a firewall that drops packets.
        with socket.create_connection(address, 10):
            channel = EventChannel(*address, b"token")
            assert not send(channel, EVENTS)
            assert not send(channel, EVENTS)
    assert caplog.text.count("takes no source events: timed out; it reads rows itself") == 1


def test_a_coordinator_that_is_silent_costs_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(sending, "_failed_at_s", {})
    monkeypatch.setattr(sending, "_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not send(EventChannel(*silent.getsockname(), b"token"), EVENTS)
    assert "takes no source events: timed out" in caplog.text
