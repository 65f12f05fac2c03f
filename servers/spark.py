"""A standalone cluster of Spark on this machine, for development and tests."""

from __future__ import annotations

import json
from contextlib import suppress
from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

from tidegate.servers.java import spark_jars
from tidegate.servers.process import Sandbox
from tidegate.servers.server import HOST, Server, free_ports

MASTER = 1  # the first node; the others are workers
JVM_OPTIONS = ["-Xmx512m", "-XX:TieredStopAtLevel=1"]
PROBE_SECONDS = 2


class SparkCluster(Server):
    """A master and workers from the jars of the installed PySpark, each a process; use it as a context manager.

    Node 1 is the master, and the others are workers.  A worker starts the executors of applications as its children, so
    :meth:`kill` ends these, too.  Executors run the ``python3`` of this process's ``PATH``, unless the application
    configures another.

    workers: the number of workers, at least 1.
    port: the port of the master; None: any free one.
    memory: the memory of each worker for its executors, in Spark's notation.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        port: int | None = None,
        cores: int = 1,
        memory: str = "1g",
    ) -> None:
        own = [] if port is None else [port]
        ports = [*own, *free_ports(workers + 2 - len(own), own)]
        super().__init__("spark", ports[:-1], None)
        self._web_port, self._cores, self._memory = ports[-1], cores, memory

    @property
    def master_url(self) -> str:
        """The address for ``spark-submit --master``; it stays the same when the cluster restarts."""
        return f"spark://{HOST}:{self._ports[MASTER]}"

    @property
    def web_url(self) -> str:
        """The address of the master's pages, which show workers and applications."""
        return f"http://{HOST}:{self._web_port}"

    def _start(self, sandbox: Sandbox, nodes: list[int]) -> None:
        (core,) = spark_jars("spark-core_*.jar")
        # Workers start executors from SPARK_HOME.  Spark's scripts would set the version of Scala.
        scala = core.name.removeprefix("spark-core_").partition("-")[0]
        home = ["env", f"SPARK_HOME={core.parents[1]}", f"SPARK_SCALA_VERSION={scala}"]
        java = [*home, *self._java(sandbox, *JVM_OPTIONS, "-cp", str(core.parent / "*"))]
        for node in sorted(nodes):
            address = ["--host", HOST, "--port", str(self._ports[node])]
            if node == MASTER:
                role = ["master.Master", *address, "--webui-port", str(self._web_port)]
            else:
                folder = ["--work-dir", str(sandbox.folder / f"work-{node}")]
                size = ["--cores", str(self._cores), "--memory", self._memory]
                role = ["worker.Worker", *address, "--webui-port", "0", *folder, *size, self.master_url]
            command = [*java, f"org.apache.spark.deploy.{role[0]}", *role[1:]]
            self._running[node] = sandbox.spawn(command, sandbox.folder / f"node-{node}.log")
            self._await_port(node)
        for node in nodes:
            self._await(lambda: self.alive_workers >= len(self.pids) - 1, node)

    @property
    def alive_workers(self) -> int:
        """The number of workers that the master counts as alive; a killed one counts for a minute."""
        with suppress(OSError, HTTPException, ValueError, KeyError):
            opener = build_opener(ProxyHandler({}))  # a proxy could not reach this machine's 127.0.0.1
            with opener.open(f"{self.web_url}/json/", timeout=PROBE_SECONDS) as answer:
                return int(json.load(answer)["aliveworkers"])
        return 0
