"""A real schema registry: Apicurio Registry with Confluent's interface."""

import json
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException

from tidegate.errors import ServerError
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
