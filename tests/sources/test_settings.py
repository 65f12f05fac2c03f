"""Settings that make Python workers faster: given when a session begins, set by register, or suggested by it."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

import tidegate
from tidegate.sources import session
from tidegate.sources.session import set_up_workers

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
DAEMON = {"spark.python.daemon.module": "tidegate.sources.worker_daemon"}
LONG = "/long" * 20


class Session:
    """A fake session: its settings, those of its SparkContext, and Java's temporary folder."""

    def __init__(self, settings, temporary="/short"):
        self.conf, self.of_context = settings, {}
        java = SimpleNamespace(System=SimpleNamespace(getProperty={"java.io.tmpdir": temporary}.get))
        context = SimpleNamespace(conf=lambda: SimpleNamespace(set=self.of_context.__setitem__))
        self._jvm = java
        self.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context))


@pytest.mark.parametrize(
    ("of", "used"),
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
def test_unix_sockets_and_the_daemon_are_used_where_nobody_says_otherwise_and_a_path_is_short_enough(of, used):
    set_up_workers(of, is_local=True)
    assert of.of_context == used


def test_a_session_of_a_cluster_is_told_once_of_sockets_that_it_does_not_use(monkeypatch, caplog):
    monkeypatch.setattr(session, "_hinted", False)
    for _ in range(2):
        set_up_workers(Session({}), is_local=False)
    (record,) = caplog.records
    assert UNIX_SOCKETS in record.getMessage()
    assert "tidegate.session_conf()" in record.getMessage()


def test_workers_of_functions_of_users_keep_their_imports_out_of_collections_and_use_unix_sockets(spark):
    """``register`` has set both, in a session that knew nothing of them."""

    def frozen(batches):
        import gc
        import os

        for batch in batches:
            count = gc.get_freeze_count() if os.environ["PYTHON_UNIX_DOMAIN_ENABLED"].lower() == "true" else 0
            yield pa.record_batch({"id": [count] * batch.num_rows})

    for _ in range(5):  # the two workers take turns as they like
        spark.range(2, numPartitions=2).mapInArrow(frozen, "id long").collect()
    counts = [row["id"] for row in spark.range(2, numPartitions=2).mapInArrow(frozen, "id long").collect()]
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
