"""Schema registries that are down, refuse, require a login, or lack a schema for a while."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from tests.support.registered import AT, avro, avro_value, header, times
from tidegate.errors import ConnectorError, DeadlineError, OptionError
from tidegate.readers.registry.columns import RegistryColumn
from tidegate.readers.registry.config import RegistryConfig
from tidegate.readers.registry.schemas import SchemaRegistry, registry_of


@contextmanager
def stub(answer):
    """Run a registry that answers the status and the body of ``answer``; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, content = answer(self)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


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


def test_one_that_refuses_ends_the_query_at_once(registry):
    with pytest.raises(ConnectorError, match="it answers with the HTTP status 404"):
        times("avro:/at", RegistryConfig(registry.url.replace("v7", "nowhere")), [header(1)], "ms")


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


def test_a_page_that_is_no_answer_of_a_registry_is_reported():
    with (
        stub(lambda _: (200, b"<html>Log in</html>")) as url,
        pytest.raises(ConnectorError, match=r"for schema 1: it answers with something that is no JSON$"),
    ):
        SchemaRegistry(RegistryConfig(url)).schema(1)


def test_a_schema_that_a_replica_lacks_is_asked_for_again(replica, monkeypatch):
    url, known = replica
    config, now_s = RegistryConfig(url), 0.0
    monkeypatch.setattr(registry_of(config), "_clock", lambda: now_s)
    monkeypatch.setattr(registry_of(config), "_sleep", lambda _: None)
    schema = avro(("at", "long"))
    value = avro_value(7, schema, {"at": AT})
    column = RegistryColumn(config, "avro", pa.struct([("at", pa.int64())]), "PERMISSIVE")
    assert times("avro:/at", config, [value], "ms")[0] == column.decoded(pa.array([value])).to_pylist() == [None]
    known[7] = schema
    assert times("avro:/at", config, [value], "ms")[0] == [None]  # it is not requested for each batch
    now_s = 60.0
    assert times("avro:/at", config, [value], "ms")[0] == [AT]
    assert column.decoded(pa.array([value])).to_pylist() == [{"at": AT}]


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


def test_a_login_in_the_address_is_refused_and_not_told():
    with pytest.raises(OptionError, match=r"put it into 'schema\.registry\.basic") as raised:
        RegistryConfig("https://anna:secret-7@registry:8081")
    assert "secret-7" not in str(raised.value)
