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
from tidegate.sources.options import option_names
from tidegate.sources.session import registration

EXAMPLE = Path(__file__).parents[3] / "examples" / "custom_connector"
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


def test_a_connector_that_cannot_be_imported_is_left_out_with_a_warning(spark, tmp_path, monkeypatch, caplog):
    package = tmp_path / "brokenbox-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: brokenbox\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[tidegate.connectors]\nbroken = brokenbox:Source\n")
    (tmp_path / "brokenbox.py").write_text("raise RuntimeError('no such library')")
    monkeypatch.syspath_prepend(tmp_path)
    tidegate.register(spark)
    assert "the connector broken of brokenbox:Source is left out: no such library" in caplog.text


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
