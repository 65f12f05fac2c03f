"""Requests: one over HTTP, through TLS and a proxy, with limits; and requests that are repeated."""

from __future__ import annotations

import ssl
from typing import NoReturn

import pytest

from tests.support.logs import StillClock
from tests.support.servers.stub import Answering
from tests.support.servers.tokens import Authority
from tidegate.errors import DeadlineError, TransientError
from tidegate.readers import http
from tidegate.readers.http import NoAnswerError, ask
from tidegate.readers.retry import LONGEST_PAUSE_S, Deadline

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_over_tls_with_trust_in_the_server(tmp_path):
    authority = Authority(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.issue("server"))
    with Answering(OK, tls=server) as there:
        trusting = ssl.create_default_context(cafile=authority.certificate)
        url = f"https://{there.address}/a?b"
        assert ask(url, {"Authorization": "Bearer x"}, 30, tls=trusting) == (200, b"{}")
        assert there.asked[0].startswith(b"GET /a?b HTTP/1.1\r\n")
        assert b"Authorization: Bearer x\r\n" in there.asked[0]
        with pytest.raises(NoAnswerError, match=r"^cannot be reached: .*CERTIFICATE_VERIFY_FAILED"):
            ask(url, {}, 30, tls=ssl.create_default_context())


def test_a_form_goes_through_the_proxy_of_the_environment(monkeypatch):
    with Answering(OK) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy.address}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert ask("http://far.example/token", {}, 30, form=b"a=1").json == {}
    assert proxy.asked[0].startswith(b"POST http://far.example/token HTTP/1.1\r\n")


def test_an_answer_that_never_ends_does_not_outlive_its_deadline():
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    with Answering(endless, again=True) as there, pytest.raises(NoAnswerError, match=r"does not answer: timed out"):
        ask(f"http://{there.address}", {}, 0.3)


def test_a_body_that_is_cut_off_is_no_answer():
    with (
        Answering(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}") as there,
        pytest.raises(NoAnswerError, match=r"^breaks off"),
    ):
        ask(f"http://{there.address}", {}, 30)


def test_a_body_beyond_the_limit_is_no_answer(monkeypatch):
    monkeypatch.setattr(http, "MOST_BYTES", 1 << 20)
    with (
        Answering(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * ((1 << 20) + 1)) as there,
        pytest.raises(NoAnswerError, match="answers with more than 1 MiB"),
    ):
        ask(f"http://{there.address}", {}, 30)


def test_no_redirect_is_followed():
    with Answering(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n") as there:
        assert ask(f"http://{there.address}", {"Authorization": "Basic x"}, 30).status == 302
        assert len(there.asked) == 1


class Pauses(StillClock):
    """A clock that remembers the pauses."""

    def __init__(self) -> None:
        super().__init__(100.0)
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        super().sleep(seconds)


def deadline(seconds: float) -> tuple[Deadline, Pauses]:
    clock = Pauses()
    return Deadline("reach the moon", seconds, clock=clock, sleep=clock.sleep), clock


def wait_for_ever(waiting: Deadline, cause: TransientError) -> NoReturn:
    while True:
        waiting.pause(cause)


def test_pauses_grow_up_to_a_limit_and_end_at_the_deadline() -> None:
    waiting, clock = deadline(20)
    with pytest.raises(DeadlineError) as raised:
        wait_for_ever(waiting, TransientError("no fuel"))
    assert str(raised.value) == "cannot reach the moon within 20 s: no fuel"
    assert clock.now == pytest.approx(120)
    assert clock.pauses[0] < 0.1
    assert clock.pauses[:5] == sorted(clock.pauses[:5])
    assert max(clock.pauses) <= LONGEST_PAUSE_S * 1.2


@pytest.mark.parametrize(
    ("causes", "reported"),
    [
        (["no fuel"], "no fuel"),
        (["no fuel", "no crew", "no fuel", "no moon", "no moon"], "no fuel; at last: no moon"),
        ([], "it does not answer"),
    ],
    ids=["the first one", "the last one besides the first", "the only one"],
)
def test_an_attempt_that_the_deadline_cut_short_tells_its_cause_only_if_there_is_no_other(
    causes: list[str], reported: str
) -> None:
    waiting, clock = deadline(20)
    for cause in causes:
        waiting.pause(TransientError(cause))
    clock.now += 30
    with pytest.raises(DeadlineError, match=f"^cannot reach the moon within 20 s: {reported}$"):
        waiting.pause(TransientError("it does not answer"))


def test_what_remains_serves_as_a_time_out() -> None:
    waiting, clock = deadline(5)
    assert waiting.remaining_s == 5
    clock.now += 10
    assert 0 < waiting.remaining_s < 0.01
