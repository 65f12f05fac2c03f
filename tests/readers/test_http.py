"""One HTTP request: over TLS, through a proxy, and against servers that never end."""

import ssl
import time

import pytest

from tests.support.certificates import Authority
from tests.support.servers.answering import Answering
from tidegate.readers.http import NoAnswerError, ask

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def soon(seconds=30):
    return time.monotonic() + seconds


def test_over_tls_with_trust_in_the_server(tmp_path):
    authority = Authority(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.issue("server"))
    with Answering(OK, tls=server) as there:
        trusting = ssl.create_default_context(cafile=authority.certificate)
        url = f"https://{there.address}/a?b"
        assert ask(url, {"Authorization": "Bearer x"}, soon(), most_bytes=9, tls=trusting) == (200, b"{}")
        assert there.asked[0].startswith(b"GET /a?b HTTP/1.1\r\n")
        assert b"Authorization: Bearer x\r\n" in there.asked[0]
        with pytest.raises(NoAnswerError, match=r"^cannot be reached: .*CERTIFICATE_VERIFY_FAILED"):
            ask(url, {}, soon(), most_bytes=9, tls=ssl.create_default_context())


def test_a_form_goes_through_the_proxy_of_the_environment(monkeypatch):
    with Answering(OK) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy.address}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert ask("http://far.example/token", {}, soon(), most_bytes=2, form=b"a=1").json == {}
    assert proxy.asked[0].startswith(b"POST http://far.example/token HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "endless",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"X",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
    ],
)
def test_an_answer_that_never_ends_does_not_outlive_its_deadline(endless):
    with (
        Answering(endless, again=True) as there,
        pytest.raises(NoAnswerError, match=r"does not answer: timed out|breaks off"),
    ):
        ask(f"http://{there.address}", {}, soon(0.3), most_bytes=1 << 20)


def test_a_body_beyond_its_bound_is_left():
    with Answering(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100) as there:
        assert ask(f"http://{there.address}", {}, soon(), most_bytes=99) == (200, None)
        assert ask(f"http://{there.address}", {}, soon(), most_bytes=100).content == b"x" * 100


def test_no_redirect_is_followed():
    with Answering(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n") as there:
        assert ask(f"http://{there.address}", {"Authorization": "Basic x"}, soon(), most_bytes=9).status == 302
        assert len(there.asked) == 1
