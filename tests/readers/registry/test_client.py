"""Schema registries that are down, refuse, require a login, or lack a schema for a while."""

import gzip
import json
import ssl
import time
from dataclasses import replace
from urllib.parse import unquote

import pytest

from tests.support.servers.registry_server import AT, avro, avro_value, decoded_as, header, times
from tests.support.servers.stub import Answering, stub
from tests.support.servers.tokens import Authority
from tidegate.errors import ConnectorError, DeadlineError, OptionError
from tidegate.readers.registry.client import RegistryConfig, SchemaRegistry, registry_of


@pytest.fixture
def replica():
    """Yield the address of a registry that has only some schemas so far, and these schemas by id."""
    known = {}

    def answer(handler):
        schema = known.get(int(handler.path.split("?")[0].rpartition("/")[2]))
        return (404, {"error_code": 40403}) if schema is None else (200, {"schema": json.dumps(schema)})

    with stub(answer) as url:
        yield url, known


@pytest.fixture
def guarded():
    """Yield a registry that requires a login, and the logins sent; Apicurio would need a server for logins."""
    sent = []

    def answer(handler):
        login = handler.headers.get("Authorization")
        sent.extend([login] if login else [])
        return (200, {"schema": '"string"'}) if login else (401, {"error_code": 40101})

    with stub(answer) as url:
        yield url, sent


def test_one_that_is_away_is_asked_until_the_deadline_and_no_login_is_reported():
    config = RegistryConfig("http://127.0.0.1:1", user_info="anna:secret-7", deadline_s=0.3)
    with pytest.raises(
        DeadlineError, match=r"cannot ask the schema registry at http://127.0.0.1:1 for schema 1"
    ) as raised:
        times("avro:/at", config, [header(1)], "ms")
    assert "secret-7" not in f"{raised.value!r} {config!r}"


@pytest.mark.parametrize(
    ("login", "header_sent"),
    [({"user_info": "anna:secret"}, "Basic YW5uYTpzZWNyZXQ="), ({"token": "t-1"}, "Bearer t-1")],
)
def test_a_login_is_sent_and_without_it_the_refusal_is_reported(guarded, login, header_sent):
    url, sent = guarded
    assert SchemaRegistry(RegistryConfig(url, **login)).schema(1).text == '"string"'
    assert sent == [header_sent]
    with pytest.raises(ConnectorError, match="it answers with the HTTP status 401"):
        SchemaRegistry(RegistryConfig(url)).schema(1)


@pytest.mark.parametrize(
    ("page", "what"),
    [
        (b"<html>Log in</html>", "JSON"),
        (b'{"schema": "\xff"}', "JSON"),
        (b'{"schema": ' + b"[" * 100_000, "JSON"),
        (gzip.compress(b'{"schema": "%s"}' % (b" " * 50_000_000)), "JSON"),  # it was not asked for
        ([1], "a schema"),
        ({"schema": {"type": "long"}}, "a schema"),
        ({}, "a schema"),
    ],
    ids=["html", "no UTF-8", "deep", "gzip", "list", "object", "empty"],
)
def test_a_page_that_is_no_answer_of_a_registry_is_reported(page, what):
    with (
        stub(lambda _: (200, page)) as url,
        pytest.raises(ConnectorError, match=rf"for schema 1: it answers with something that is not {what}$"),
    ):
        SchemaRegistry(RegistryConfig(url)).schema(1)


@pytest.mark.parametrize("kind", ["AVRO", "avro", None])
def test_the_type_of_a_schema_has_any_case_and_is_avro_if_there_is_none(kind):
    schema = avro(("at", "long"))
    with stub(lambda _: (200, {"schema": json.dumps(schema), "schemaType": kind, "id": 7})) as url:
        config, value = RegistryConfig(url), avro_value(7, schema, {"at": AT})
        assert times("avro:/at", config, [value], "ms")[0] == [AT]
        assert decoded_as("orders", config, "avro", [value]) == [{"at": AT}]


def referring(*versions, text='"string"'):
    return {"schema": text, "references": [{"name": f"n{v}", "subject": "s", "version": v} for v in versions]}


def version_of(handler):
    last = handler.path.rpartition("/")[2]
    return int(last) if last.isdecimal() and "/versions/" in handler.path else 0


def test_a_schema_and_all_that_it_refers_to_share_one_deadline():
    def answer(handler):
        time.sleep(0.05)  # the slowness itself, of each answer
        return 200, referring(version_of(handler) + 1) if version_of(handler) < 40 else {"schema": '"string"'}

    with stub(answer) as url, pytest.raises(DeadlineError, match="cannot ask the schema registry"):
        SchemaRegistry(RegistryConfig(url, deadline_s=0.5)).schema(1)


def test_schemas_may_refer_to_each_other_and_to_one_twice():
    asked = []

    def answer(handler):
        asked.append(version_of(handler))
        return 200, referring(*{0: (1, 2), 1: (2, 3), 2: (1,), 3: ()}[asked[-1]], text=str(asked[-1]))

    with stub(answer) as url:
        found = SchemaRegistry(RegistryConfig(url)).schema(1)
    assert (found.text, dict(found.references)) == ("0", {"n1": "1", "n2": "2", "n3": "3"})
    assert sorted(asked) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("references", "why"),
    [
        ([{"name": "n", "version": 1}], "a schema with malformed references"),
        ([7], "a schema with malformed references"),
    ],
)
def test_references_that_lead_nowhere_are_reported(references, why):
    with (
        stub(lambda _: (200, {"schema": "1", "references": references})) as url,
        pytest.raises(ConnectorError, match=f"it answers with {why}$"),
    ):
        SchemaRegistry(RegistryConfig(url)).schema(1)


def test_a_context_has_ids_and_references_of_its_own():
    asked = []

    def answer(handler):
        asked.append(unquote(handler.path))
        inner = "subject=" in handler.path or "latest" in handler.path
        return 200, {"schema": "staging", **(referring(1, text="staging") if inner else {})}

    with stub(answer) as url:
        registry = SchemaRegistry(RegistryConfig(url))
        registry.schema(1, "orders-value")
        registry.schema(1, ":.staging:orders-value")
        registry.latest(":.staging:orders-value")
    of_context, reference = "?subject=:.staging:orders-value", "/subjects/:.staging:s/versions/1"
    latest = "/subjects/:.staging:orders-value/versions/latest"
    assert asked == ["/schemas/ids/1", f"/schemas/ids/1{of_context}", reference, latest, reference]


def test_a_guid_names_a_schema():
    with stub(lambda handler: (200, {"schema": handler.path})) as url:
        assert SchemaRegistry(RegistryConfig(url)).schema("00-1").text == "/schemas/guids/00-1"


def test_the_next_server_is_asked_if_one_is_away():
    with stub(lambda _: (200, {"schema": '"string"'})) as url:
        assert SchemaRegistry(RegistryConfig(f"http://127.0.0.1:1, {url}/")).schema(1).text == '"string"'


def test_a_schema_that_a_replica_lacks_is_asked_for_again(replica, monkeypatch):
    url, known = replica
    config, now_s = RegistryConfig(url), 0.0
    monkeypatch.setattr(registry_of(config), "_clock", lambda: now_s)
    monkeypatch.setattr(registry_of(config), "_sleep", lambda _: None)
    schema = avro(("at", "long"))
    value = avro_value(7, schema, {"at": AT})
    assert times("avro:/at", config, [value], "ms")[0] == [None]
    known[7] = schema
    assert times("avro:/at", config, [value], "ms")[0] == [None]  # it is not requested for each batch
    now_s = 60.0
    assert times("avro:/at", config, [value], "ms")[0] == [AT]


def test_a_replica_that_is_a_moment_behind_has_its_schema_before_it_is_missed(replica):
    url, known = replica
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        known[7] = avro(("at", "long"))

    registry = SchemaRegistry(RegistryConfig(url), sleep=sleep)
    assert registry.schema(7) is not None
    assert [registry.schema(number) for number in (8, 9)] == [None, None]
    # The registry may be behind each time.  But values that name many missing schemas do not cause a pause each.
    assert len(pauses) == 2


@pytest.mark.parametrize("url", ["", "registry:8081", "ftp://registry", "http://registry:x", "https://", "http://a,b"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(OptionError, match=r"^the option 'schema\.registry\.url' names '.*': expected http://host"):
        RegistryConfig(url)


def test_a_registry_may_ask_for_a_certificate(tmp_path):
    authority = Authority(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    server.load_cert_chain(authority.issue("server"))
    server.verify_mode = ssl.CERT_REQUIRED
    own, body = str(authority.issue("reader")), b'{"schema": "1"}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with Answering(answer, tls=server) as there:
        config = RegistryConfig(f"https://{there.address}", ca_file=str(authority.certificate), deadline_s=2)
        assert SchemaRegistry(replace(config, certificate_file=own, deadline_s=30)).schema(1).text == "1"
        with pytest.raises(DeadlineError):
            SchemaRegistry(config).schema(1)
        with pytest.raises(DeadlineError, match="CERTIFICATE_VERIFY_FAILED"):
            SchemaRegistry(replace(config, ca_file=None)).schema(1)


def test_a_file_of_certificates_that_is_none_is_refused(tmp_path):
    for option in ("ca", "certificate"):
        file = {f"{option}_file": str(tmp_path / "absent")}
        with pytest.raises(OptionError, match=rf"'schema\.registry\.ssl\.{option}\.location' names no usable file"):
            SchemaRegistry(RegistryConfig("https://registry", **file)).schema(1)


def test_a_login_in_the_address_is_refused_and_not_told():
    with pytest.raises(OptionError, match=r"put it into 'schema\.registry\.basic") as raised:
        RegistryConfig("https://anna:secret-7@registry:8081")
    assert "secret-7" not in str(raised.value)
