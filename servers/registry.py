"""A real schema registry, for development and tests."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from tidegate.errors import ServerError
from tidegate.servers.maven import find_unpacked
from tidegate.servers.server import HOST, Server, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegate.servers.process import Sandbox

__all__ = ["RegistryServer"]

VERSION = "3.0.9"
COORDINATE = f"io.apicurio:apicurio-registry-app:{VERSION}:all"
JAR = f"apicurio-registry-app-{VERSION}-runner.jar"
# The second compiler slows the start by more than it saves later.
JVM_OPTIONS = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
PATH = "/apis/ccompat/v7"
PROBE_SECONDS = 5
SCHEMA_JSON = "application/vnd.schemaregistry.v1+json"


class RegistryServer(Server):
    """Apicurio Registry with Confluent's interface, on a free port of 127.0.0.1; use it as a context manager.

    The schemas are in memory, and are gone when the server ends.  This registry sends schemas of Protobuf only as
    sources; Confluent's can also send them compiled (``format=serialized``).

    timeout_seconds: the maximum time of each wait, such as a start.

    The program comes from Maven Central on first use (109 MB), or from the folder that ``REGISTRY_LIBS`` names.  No
    process, port or temporary folder is left behind, however the calling process ends.
    """

    def __init__(self, *, timeout_seconds: float = 60) -> None:
        super().__init__("registry", free_ports(1), None, timeout_seconds)

    @property
    def url(self) -> str:
        """The address for ``schema.registry.url``; it stays the same when the server restarts."""
        return f"http://{HOST}:{self._ports[1]}{PATH}"

    def register(
        self,
        subject: str,
        schema: str,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """Register a schema as the newest of a subject, and return its id.

        kind: "AVRO", "PROTOBUF" or "JSON".
        references: the schemas that it refers to, each with ``name``, ``subject`` and ``version``.

        Raises ServerError if the registry refuses.
        """
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        answer = self._ask("POST", f"/subjects/{subject}/versions", body)
        return int(answer["id"])

    def _start(self, sandbox: Sandbox, nodes: list[int]) -> None:
        folder = find_unpacked(COORDINATE, "REGISTRY_LIBS", JAR)
        for node in nodes:
            settings = [f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self._ports[node]}"]
            java = self._java(sandbox, *JVM_OPTIONS, *settings, "-jar", str(folder / JAR))
            self._running[node] = sandbox.spawn(java, sandbox.folder / "registry.log")
            self._await_port(node)
            self._await(partial(self._serves), node)

    def _serves(self) -> bool:
        with suppress(OSError, HTTPException, ServerError):
            self._ask("GET", "/subjects")
            return True
        return False

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        with closing(HTTPConnection(HOST, self._ports[1], timeout=PROBE_SECONDS)) as connection:
            content = None if body is None else json.dumps(body)
            connection.request(method, PATH + path, content, {"Content-Type": SCHEMA_JSON})
            answer = connection.getresponse()
            data = answer.read()
            if answer.status >= 300:
                raise ServerError(f"the registry answers {answer.status} to {method} {path}: {data.decode()[:300]}")
            return json.loads(data)
