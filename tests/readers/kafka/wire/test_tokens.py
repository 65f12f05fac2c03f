"""Tokens for OAUTHBEARER: fetched once for many connections, renewed in time, and never by a redirected login."""

import base64
import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from kafka.errors import SaslAuthenticationFailedError

from tests.support.servers.stub import Answering
from tests.support.servers.tokens import CLIENT, CLIENT_SECRET, TokenEndpoint, TokenSigner
from tidegate.errors import OptionError
from tidegate.readers.kafka.wire import login, tokens
from tidegate.readers.kafka.wire.tokens import TokenError, TokenProvider
from tidegate.sources.kafka.java.properties import connection_config

given: list[Mapping[str, str]] = []


def counted(options):
    given.append(options)
    return f"token {len(given)}"


def nothing(_):
    return None


@pytest.fixture(autouse=True)
def forgotten():
    tokens._tokens.clear()
    yield
    tokens._tokens.clear()


@pytest.fixture(scope="module")
def signer():
    return TokenSigner()


@pytest.fixture
def endpoint(signer):
    with TokenEndpoint(signer) as running:
        yield running


def properties(**more):
    common = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    named = {name.replace("__", "."): value for name, value in more.items()}
    return connection_config("here", common | named).properties


def from_endpoint(url, secret=CLIENT_SECRET, options=""):
    module = f'a.OAuthBearerLoginModule required clientId="{CLIENT}" clientSecret="{secret}" {options};'
    return properties(sasl__jaas__config=module, sasl__oauthbearer__token__endpoint__url=url)


def provider(settings, seconds=10):
    return TokenProvider(settings, time.monotonic() + seconds)


def test_connections_share_a_token_and_each_login_has_its_own(endpoint):
    settings = from_endpoint(endpoint.url, options='scope="read write"')
    first = provider(settings).token()
    assert provider(settings).token() == first
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["read write"]}]
    assert provider(from_endpoint(endpoint.url)).token() != first
    assert endpoint.asked[1] == {"grant_type": ["client_credentials"]}


def test_a_refused_token_is_forgotten_but_not_the_newer_one_of_another_connection(endpoint):
    settings = from_endpoint(endpoint.url)
    refused, also_refused, later = (provider(settings) for _ in range(3))
    first = refused.token()
    assert also_refused.token() == first
    refused.forget()
    second = later.token()
    assert second != first
    also_refused.forget()
    assert provider(settings).token() == second
    later.forget()
    assert provider(settings).token() not in {first, second}


def test_a_slow_endpoint_holds_up_its_own_login_only_and_no_longer_than_its_deadline(endpoint, monkeypatch):
    asked, released = threading.Event(), threading.Event()

    def slow(_):
        asked.set()
        released.wait(60)
        return 200, {"access_token": "late"}

    monkeypatch.setattr(endpoint, "answer", slow)
    settings = from_endpoint(endpoint.url)
    fetching = threading.Thread(target=provider(settings, 60).token)
    fetching.start()
    try:
        assert asked.wait(60)
        other = properties(sasl__login__callback__handler__class=f"{__name__}:counted")
        assert provider(other).token().startswith("token ")
        with pytest.raises(TokenError, match=r"^another connection still waits for the token of this login$") as raised:
            provider(settings, 0.05).token()
        assert raised.value.may_heal
    finally:
        released.set()
        fetching.join()


@pytest.mark.parametrize("of_token", [True, False])
def test_a_token_is_fetched_anew_when_four_fifths_of_its_life_are_over(endpoint, signer, monkeypatch, of_token):
    began = time.time()
    text = signer.token(CLIENT, life_s=100) if of_token else "opaque"
    monkeypatch.setattr(endpoint, "answer", lambda _: (200, {"access_token": text, "expires_in": 100}))
    settings = from_endpoint(endpoint.url)
    provider(settings).token()
    for later_s, asked in ((70, 1), (82, 2)):
        monkeypatch.setattr(time, "time", lambda later_s=later_s: began + later_s)
        provider(settings).token()
        assert len(endpoint.asked) == asked


@pytest.mark.parametrize(
    ("refusal", "sentence", "may_heal"),
    [
        ((401, {"error": "invalid_client"}), "^the token endpoint answers 401 invalid_client$", False),
        ((400, {"error": "invalid_scope", "error_description": CLIENT_SECRET}), "answers 400 invalid_scope$", False),
        ((400, {"error": CLIENT_SECRET}), "^the token endpoint answers 400 Bad Request$", False),
        ((401, {"error": ["invalid_client"]}), "^the token endpoint answers 401 Unauthorized$", False),
        ((499, [1]), "^the token endpoint answers 499$", False),
        ((503, {}), "^the token endpoint answers 503 Service Unavailable$", True),
        ((302, {}), "^the token endpoint answers 302", False),
        ((200, {"token": "x"}), "^the token endpoint answers without an access_token$", False),
        ((200, {"access_token": ""}), "^the token endpoint answers without an access_token$", False),
        ((200, {"access_token": None}), "^the token endpoint answers without an access_token$", False),
        ((200, {"access_token": "x", "expires_in": "soon"}), "answers without an access_token$", False),
        ((200, {"access_token": "x", "expires_in": 10**400}), "answers without an access_token$", False),
        ((200, {"access_token": "\ud800"}), "answers without an access_token$", False),
        ((200, []), "answers without an access_token$", False),
        ((200, b"[" * 200_000), "answers without an access_token$", False),
        ((200, b"\xff"), "answers without an access_token$", False),
        ((200, b" " * ((1 << 20) + 1)), "answers without an access_token$", False),
    ],
)
def test_a_refusal_is_reported_by_its_code(endpoint, refusal, sentence, may_heal):
    endpoint.refusal = refusal
    with pytest.raises(TokenError, match=sentence) as raised:
        provider(from_endpoint(endpoint.url)).token()
    assert raised.value.may_heal is may_heal
    assert CLIENT_SECRET not in str(raised.value)


def test_an_endpoint_that_sends_a_byte_now_and_then_holds_a_login_no_longer_than_its_deadline():
    body = b'{"access_token": "late"}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with Answering(answer, slowly=True) as there:
        settings = from_endpoint(f"http://{there.address}")
        for _ in range(2):  # the second shows that the first has released the lock
            with pytest.raises(TokenError, match=r"^the token endpoint does not answer: timed out$") as raised:
                provider(settings, 0.3).token()
            assert raised.value.may_heal


@pytest.mark.parametrize("claims", [b"[" * 50_000, b'{"exp": 1' + b"0" * 400 + b"}", b'{"exp": "soon"}', b"[]"])
def test_a_token_whose_claims_are_none_is_one_without_an_end(claims):
    text = f"a.{base64.urlsafe_b64encode(claims).rstrip(b'=').decode()}.c"
    assert tokens._token(text, None).expires_at_s is None


def test_properties_come_before_the_login_module_as_in_java(endpoint):
    of_client = "sasl__oauthbearer__client__credentials__client__"
    settings = properties(
        sasl__jaas__config='a.OAuthBearerLoginModule required clientId="old" clientSecret="old" scope="old";',
        sasl__oauthbearer__token__endpoint__url=endpoint.url,
        sasl__oauthbearer__scope="new",
        **{f"{of_client}id": CLIENT, f"{of_client}secret": CLIENT_SECRET},
    )
    assert provider(settings).token()
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["new"]}]


def test_a_token_that_a_broker_refuses_is_fetched_anew(endpoint):
    settings = from_endpoint(endpoint.url)
    provider(settings).token()
    answers = iter([{"error_code": 0, "mechanisms": ["OAUTHBEARER"]}, {"error_code": 58, "error_message": "no"}])
    versions = SimpleNamespace(api_version=lambda *_, **__: 1)
    soon = time.monotonic() + 10
    with pytest.raises(SaslAuthenticationFailedError):
        login._authenticate(lambda *_: SimpleNamespace(**next(answers)), versions, "here:9092", settings, soon, soon)
    assert len(endpoint.asked) == 1
    provider(settings).token()
    assert len(endpoint.asked) == 2


def test_a_token_may_be_in_a_file_which_is_read_each_time_unless_it_tells_its_end(tmp_path, signer):
    file = tmp_path / "of a pod"
    settings = properties(sasl__oauthbearer__token__endpoint__url=file.as_uri())
    for text in ("one", "two"):
        file.write_text(f"{text}\n")
        assert provider(settings).token() == text
    file.write_text(signer.token("pod"))
    kept = provider(settings).token()
    file.write_text("three")
    assert provider(settings).token() == kept


def test_a_function_gets_the_options_of_the_login_module():
    module = 'a.OAuthBearerLoginModule required region="east" extension_logicalCluster="lkc-1";'
    settings = properties(sasl__jaas__config=module, sasl__login__callback__handler__class=f"{__name__}:counted")
    given.clear()
    assert provider(settings).token() == "token 1"
    assert given == [{"region": "east", "extension_logicalCluster": "lkc-1"}]
    assert provider(settings).token() == "token 2"  # the first answer has no lifetime
    assert provider(settings).extensions() == {"logicalCluster": "lkc-1"}


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        (f"{__name__}:nothing", TokenError, "gives no token, but a NoneType$"),
        (f"{__name__}:absent", OptionError, f"but {__name__} has no function absent$"),
        ("no_such_package:token", OptionError, "which this process cannot import: No module named 'no_such_package'$"),
    ],
)
def test_a_function_that_is_of_no_use_is_named(name, kind, sentence):
    with pytest.raises(kind, match=sentence):
        provider(properties(sasl__login__callback__handler__class=name)).token()
