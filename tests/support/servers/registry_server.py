"""A real schema registry (Apicurio Registry with Confluent's interface), and values in Confluent's wire format."""

import io
import json
import struct
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from urllib.parse import unquote

import fastavro
import pyarrow as pa

from tests.support.servers.stub import stub
from tidegate.errors import ServerError
from tidegate.readers.event_time.assigners import assigner_of
from tidegate.readers.registry.client import RegistryConfig
from tidegate.readers.registry.columns import column_of_subject
from tidegate.servers.java import find_unpacked
from tidegate.servers.server import HOST, Server, free_ports

VERSION = "3.0.9"
COORDINATE = f"io.apicurio:apicurio-registry-app:{VERSION}:all"
JAR = f"apicurio-registry-app-{VERSION}-runner.jar"
# The second compiler slows the start by more than it saves later.
JVM_OPTIONS = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
PATH = "/apis/ccompat/v7"
PROBE_SECONDS = 5
SCHEMA_JSON = "application/vnd.schemaregistry.v1+json"


class RegistryServer(Server):
    """A registry on a free port of 127.0.0.1; its schemas are in memory.

    It sends schemas of Protobuf only as sources; Confluent's can also send them compiled (``format=serialized``).
    """

    def __init__(self):
        super().__init__("registry", free_ports(1), None, 60)

    @property
    def url(self):
        """The address for ``schema.registry.url``; it stays the same when the server restarts."""
        return f"http://{HOST}:{self._ports[1]}{PATH}"

    def register(self, subject, schema, kind="AVRO", references=()):
        """Register a schema as the newest of a subject, and return its id.

        references: the schemas that it refers to, each with ``name``, ``subject`` and ``version``.
        """
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        return self._ask("POST", f"/subjects/{subject}/versions", body)["id"]

    def _start(self, sandbox, nodes):
        folder = find_unpacked(COORDINATE, "REGISTRY_LIBS", JAR)
        for node in nodes:
            settings = [f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self._ports[node]}"]
            java = self._java(sandbox, *JVM_OPTIONS, *settings, "-jar", str(folder / JAR))
            self._running[node] = sandbox.spawn(java, sandbox.folder / "registry.log")
            self._await_port(node)
            self._await(self._serves, node)

    def _serves(self):
        with suppress(OSError, HTTPException, ServerError):
            self._ask("GET", "/subjects")
            return True
        return False

    def _ask(self, method, path, body=None):
        with closing(HTTPConnection(HOST, self._ports[1], timeout=PROBE_SECONDS)) as connection:
            content = None if body is None else json.dumps(body)
            connection.request(method, PATH + path, content, {"Content-Type": SCHEMA_JSON})
            answer = connection.getresponse()
            data = answer.read()
            if answer.status >= 300:
                raise ServerError(f"the registry answers {answer.status} to {method} {path}: {data.decode()[:300]}")
            return json.loads(data)


AT = 1_700_000_000_123


def avro(*fields):
    return {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def header(schema_id):
    return b"\0" + struct.pack(">I", schema_id)


def avro_value(schema_id, schema, record):
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(schema), record)
    return header(schema_id) + payload.getvalue()


def protobuf_value(schema_id, message, indexes=b"\0"):
    return header(schema_id) + indexes + message.SerializeToString()


def headers_of(headers):
    """Return a column of headers: pairs of each record."""
    return pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))


def times(option, config, values, unit=None, headers=None):
    assigner = assigner_of(option, unit, config)
    columns = {} if headers is None else {"headers": headers_of(headers)}
    batch = pa.record_batch({"value": pa.array(values, pa.binary()), **columns})
    if unit is None and (detected := assigner.detect(batch)) is not None:
        assigner = assigner.with_unit(detected)
    return assigner(batch).to_pylist(), assigner.unit


def decoded_as(subject, config, form, values, *how, headers=None):
    """Return values in the type of a subject as rows."""
    column = column_of_subject(config, form, subject, *how)
    given = [pa.array(values, pa.binary())]
    if headers is not None:
        given.append(headers_of(headers))
    return column.decoded(*given).to_pylist()


@contextmanager
def registry_of(schemas, subject="orders-value", newest=None, kind="AVRO", guids=None, in_context=None):
    """Serve schemas by id; yield the configuration of their registry.

    newest: the id of the newest schema of the subject; None: the last one.
    in_context: the schemas by id in the context of the subject; None: it is the default one.
    """

    def answer(handler):
        path, _, context = unquote(handler.path).partition("?subject=")
        known = in_context if in_context and (context or path.startswith("/subjects/")) else schemas
        if path == f"/subjects/{subject}/versions/latest":
            number = newest or [*known][-1]
        else:
            *_, of, last = path.split("/")
            number = int(last) if of == "ids" else (guids or {}).get(last)
        if number not in known:
            return 404, {"error_code": 40403}
        schema = known[number]
        return 200, {"schema": schema if isinstance(schema, str) else json.dumps(schema), "schemaType": kind}

    with stub(answer) as url:
        yield RegistryConfig(url)
