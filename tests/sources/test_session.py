"""What ``register`` does to a session: it finds installed connectors, and makes Python workers faster."""

import shutil
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceRegistration

import tidegate
from tidegate import InstallationError, KafkaSource, S3Source
from tidegate.conformance import Row
from tidegate.sources import session
from tidegate.sources import session as registration
from tidegate.sources.options import option_names
from tidegate.sources.session import set_up_workers

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_connector"
PIP_INSTALL = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]


def test_pip_installs_a_connector_that_register_finds(spark, tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pyproject.toml", "outbox.py"):
        shutil.copy(EXAMPLE / name, project)
    subprocess.run([*PIP_INSTALL, "--target", str(tmp_path / "site"), str(project)], check=True)
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.syspath_prepend(tmp_path / "site")
    from harness import OutboxHarness

    tidegate.register(spark)
    with closing(OutboxHarness()) as outbox:
        outbox.create_split().append([Row(0, 0, 1_000, "first")])
        rows = spark.read.format("outbox").option("database", str(outbox.path)).load().collect()
        assert [row["value"] for row in rows] == ["first"]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package whose module is given, with connectors by the names of their entry points."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(package, module, **points):
        info = tmp_path / f"{package}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        lines = "".join(f"{name} = {package}:{attribute}\n" for name, attribute in points.items())
        (info / "entry_points.txt").write_text(f"[tidegate.connectors]\n{lines}")
        (tmp_path / f"{package}.py").write_text(module)

    return install


NAMELESS = """
from tidegate import KafkaSource

class Nameless(KafkaSource):
    @classmethod
    def data_source_name(cls):
        raise RuntimeError("no name")
"""


@pytest.mark.parametrize(
    ("package", "module", "why"),
    [
        ("brokenbox", "raise RuntimeError('no such library')", "no such library"),
        ("exitbox", "raise SystemExit(3)", "3"),
        ("exitbox2", "raise SystemExit", "SystemExit"),
        ("namelessbox", NAMELESS, "no name"),
    ],
)
def test_a_broken_connector_is_left_out_with_a_warning(spark, install, caplog, package, module, why):
    install(package, module, broken="Nameless")
    tidegate.register(spark)
    assert f"the connector broken of {package}:Nameless is left out: {why}" in caplog.text


def test_of_two_connectors_with_one_name_the_last_counts_with_a_warning(spark, install, caplog):
    install("secondbox", "from tidegate import S3Source\nclass Objects(S3Source):\n    ...\n", twin="Objects")
    tidegate.register(spark, S3Source)
    reported = [record.message for record in caplog.records]
    objects, own = "secondbox.Objects", "tidegate.sources.s3.source.S3Source"
    assert [message for message in reported if "two connectors" in message] == [
        f"two connectors are called 'tidegate_s3': {one} is used, and not {other}"
        for one, other in ((objects, own), (own, objects))
    ]


def test_connectors_are_not_looked_for_in_jars(spark, tmp_path, monkeypatch, caplog):
    with zipfile.ZipFile(tmp_path / "box.jar", "w") as jar:
        jar.writestr("box-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: box\nVersion: 1\n")
        jar.writestr("box-1.dist-info/entry_points.txt", "[tidegate.connectors]\nbox = box:Missing\n")
    monkeypatch.syspath_prepend(tmp_path / "box.jar")
    tidegate.register(spark)
    assert "box" not in caplog.text


def test_without_any_connector_one_sentence_says_what_to_install(spark, monkeypatch):
    monkeypatch.setattr(registration, "entry_points", lambda group: ())
    with pytest.raises(InstallationError, match="install tidegate with pip"):
        tidegate.register(spark)


def test_a_second_session_is_registered_while_the_first_is_active(spark):
    tidegate.register(spark)
    active, second = SparkSession.getActiveSession(), spark.newSession()
    tidegate.register(second)
    tidegate.register(second)
    assert SparkSession.getActiveSession() is active
    options = {"kafka.bootstrap.servers": "localhost:9", "subscribe": "orders"}
    assert "offset" in second.read.format("tidegate_kafka").options(**options).load().columns


def test_no_secret_option_shows_in_a_plan(spark, capsys):
    tidegate.register(spark)
    tidegate.register(spark)
    names = {
        name
        for source in (KafkaSource, S3Source)
        for field, name in option_names(source).items()
        if not source.model_fields[field].repr
    }
    stores = ("keystore.key", "keystore.password", "key.password", "truststore.password")
    logins = ("jaas.config", "oauthbearer.client.credentials.client.secret")
    names = names - {"kafka.*"} | {*(f"kafka.sasl.{n}" for n in logins), *(f"kafka.ssl.{n}" for n in stores)}
    assert "schema.registry.basic.auth.user.info" in names
    names.add("url")  # Spark hides it for JDBC
    # Spark shows options of streams in the plans of any source.
    spark.readStream.format("rate").options(path="shown", **dict.fromkeys(names, "hunter2")).load().explain("extended")
    plan = capsys.readouterr().out
    assert "path=shown" in plan
    assert "hunter2" not in plan


KAFKA = "USING tidegate_kafka OPTIONS (`kafka.bootstrap.servers` 'localhost:9', subscribe 'orders')"


def test_a_table_whose_options_spark_would_lose_is_refused_and_a_view_keeps_them(spark):
    tidegate.register(spark)
    with pytest.raises(AnalysisException, match=r"OptionError: Spark reads a table .* use CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE inferred {KAFKA}")
    spark.sql(f"CREATE TABLE given (value BINARY) {KAFKA}")
    try:
        with pytest.raises(
            AnalysisException, match=r"'kafka\.bootstrap\.servers' is missing; .* CREATE TEMPORARY VIEW"
        ):
            spark.table("given").count()
    finally:
        spark.sql("DROP TABLE given")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW kept {KAFKA}")
    assert "offset" in spark.table("kept").columns


def test_a_write_is_refused_in_one_sentence(spark):
    tidegate.register(spark)
    writer = spark.range(1).write.format("tidegate_s3").options(path="s3://bucket/out", fileFormat="text")
    with pytest.raises(AnalysisException, match="OptionError: tidegate_s3 only reads; ") as raised:
        writer.mode("append").save()
    assert "Traceback" not in str(raised.value)


UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
DAEMON = {"spark.python.daemon.module": "tidegate.sources.worker_daemon"}
HOME = str(Path.home())
IN_TMP = {UNIX_SOCKETS: "true", SOCKET_FOLDER: "/tmp"}  # noqa: S108 - of the product


class Session:
    """A fake session: its settings, and those of its SparkContext."""

    def __init__(self, settings):
        self.conf, self.of_context = settings, {}
        context = SimpleNamespace(conf=lambda: SimpleNamespace(set=self.of_context.__setitem__))
        self.sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context))


@pytest.mark.parametrize(
    ("of", "used"),
    [
        (Session({}), {**IN_TMP, **DAEMON}),
        (Session({UNIX_SOCKETS: "false"}), DAEMON),
        (Session(tidegate.session_conf()), DAEMON),  # the sockets are already set
        (Session({"spark.python.daemon.module": "mine"}), IN_TMP),
        (Session({SOCKET_FOLDER: HOME}), {**IN_TMP, **DAEMON, SOCKET_FOLDER: HOME}),
        (Session({SOCKET_FOLDER: "/nowhere"}), DAEMON),
    ],
)
def test_unix_sockets_and_the_daemon_are_used_where_nobody_says_otherwise(of, used):
    set_up_workers(of, is_local=True)
    assert of.of_context == used


def test_the_folder_of_unix_sockets_stays_that_of_java_where_tmp_cannot_be_written(monkeypatch):
    monkeypatch.setattr(session, "_SHORT_FOLDER", "/nowhere")
    assert SOCKET_FOLDER not in tidegate.session_conf()


def test_a_session_of_a_cluster_is_told_once_of_sockets_that_it_does_not_use(monkeypatch, caplog):
    monkeypatch.setattr(session, "_hinted", False)
    for _ in range(2):
        set_up_workers(Session({}), is_local=False)
    (record,) = caplog.records
    assert UNIX_SOCKETS in record.getMessage()
    assert "tidegate.session_conf()" in record.getMessage()


def test_sources_are_registered_without_unix_sockets_which_come_back(spark, monkeypatch):
    """Over such a socket the worker that looks for other sources would print a BrokenPipeError after an idle minute."""
    conf, seen = spark.sparkContext._jsc.sc().conf(), []
    monkeypatch.setattr(DataSourceRegistration, "register", lambda *_: seen.append(conf.get(UNIX_SOCKETS)))
    tidegate.register(spark)
    assert {*seen} == {"false"}
    assert conf.get(UNIX_SOCKETS) == "true"


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
    everything = {"spark.ui.showConsoleProgress", *IN_TMP, "spark.sql.streaming.stopActiveRunOnRestart"}
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
