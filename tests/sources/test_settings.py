"""Settings that make Python workers faster: given when a session begins, set by register, or suggested by it."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError

import tidegate
from tests.support.command import PATIENCE_S
from tidegate.sources.session import set_up_workers

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
DAEMON = {"spark.python.daemon.module": "tidegate.sources.worker_daemon"}
LONG = "/long" * 20

SCRIPT = """
import json, logging
from pyspark.sql import SparkSession
import tidegate
from tidegate.sources.session import set_up_workers

class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())

lines = []
logging.getLogger("tidegate").addHandler(Lines())
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
for _ in range(2):
    set_up_workers(spark, is_local=False)  # as on a cluster
tidegate.register(spark)

def seen(rows):
    import os
    for batch in rows:
        yield batch.assign(id=int(os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() == "true"))

found = [row["id"] for row in spark.range(1).mapInPandas(seen, "id long").collect()]
print(json.dumps([lines, found]))
"""


def test_a_session_that_knows_nothing_of_unix_sockets_uses_them_and_on_a_cluster_is_told_of_them_once():
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    (line,), counts = json.loads(ended.stdout.splitlines()[-1])
    assert counts == [1]
    assert UNIX_SOCKETS in line
    assert "tidegate.session_conf()" in line


class Session:
    """A fake session: its settings, those of its SparkContext, and Java's temporary folder."""

    def __init__(self, settings, temporary="/short"):
        self.conf, self.of_context = settings, {}
        java = SimpleNamespace(System=SimpleNamespace(getProperty={"java.io.tmpdir": temporary}.get))
        context = SimpleNamespace(conf=lambda: SimpleNamespace(set=self.of_context.__setitem__))
        self._jvm = java
        self.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context))


@pytest.mark.parametrize(
    ("session", "used"),
    [
        (Session({}), {UNIX_SOCKETS: "true", **DAEMON}),
        (Session({UNIX_SOCKETS: "false"}), DAEMON),
        (Session(tidegate.session_conf()), DAEMON),  # the sockets are already set
        (Session({"spark.python.daemon.module": "mine"}), {UNIX_SOCKETS: "true"}),
        (Session({}, temporary=LONG), DAEMON),
        (Session({SOCKET_FOLDER: LONG}), DAEMON),
        (Session({SOCKET_FOLDER: "/short"}, temporary=LONG), {UNIX_SOCKETS: "true", **DAEMON}),
    ],
)
def test_unix_sockets_and_the_daemon_are_used_where_nobody_says_otherwise_and_a_path_is_short_enough(session, used):
    set_up_workers(session, is_local=True)
    assert session.of_context == used


def test_workers_of_functions_of_users_keep_their_imports_out_of_collections(spark):
    def frozen(rows):
        import gc

        for batch in rows:
            yield batch.assign(id=gc.get_freeze_count())

    for _ in range(5):  # the two workers take turns as they like
        spark.range(2, numPartitions=2).mapInPandas(frozen, "id long").collect()
    counts = [row["id"] for row in spark.range(2, numPartitions=2).mapInPandas(frozen, "id long").collect()]
    assert min(counts) > 10_000


@pytest.mark.parametrize("remote", [True, False])
def test_a_client_of_spark_connect_gets_only_what_it_can_set(remote, monkeypatch):
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    if remote:
        monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    everything = {"spark.ui.showConsoleProgress", UNIX_SOCKETS, "spark.sql.streaming.stopActiveRunOnRestart"}
    assert set(tidegate.session_conf()) == ({"spark.sql.streaming.stopActiveRunOnRestart"} if remote else everything)


def test_a_second_query_with_the_same_checkpoint_ends_with_a_sentence_and_the_first_goes_on(spark, tmp_path):
    rows = spark.readStream.format("rate").load().writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    first = rows.start()
    try:
        with pytest.raises(Py4JJavaError, match="another query with same id is already active"):
            rows.start()
        assert first.isActive
    finally:
        first.stop()
