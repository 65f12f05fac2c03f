"""Connectors of installed packages are found by their entry points."""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import tidegate
from tidegate import InstallationError, KafkaSource, S3Source
from tidegate.conformance import Row
from tidegate.sources import session as registration
from tidegate.sources.options import option_names

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
    told = [record.message for record in caplog.records]
    objects, own = "secondbox.Objects", "tidegate.sources.s3.source.S3Source"
    assert [message for message in told if "two connectors" in message] == [
        f"two connectors are called 'tidegate_s3': {one} is used, and not {other}"
        for one, other in ((objects, own), (own, objects))
    ]


def test_without_any_connector_one_sentence_says_what_to_install(spark, monkeypatch):
    monkeypatch.setattr(registration, "entry_points", lambda group: ())
    with pytest.raises(InstallationError, match="install tidegate with pip"):
        tidegate.register(spark)


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
