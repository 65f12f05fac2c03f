"""Errors of a Kafka that cannot start.  Tests of sources kill and restart brokers, and ``test_parent`` ends them."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tidegate.errors import ServerError
from tidegate.servers import KafkaServer
from tidegate.servers.process import Sandbox


def test_given_jars_that_are_not_kafkas_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_LIBS", str(tmp_path))
    with pytest.raises(ServerError, match=f"KAFKA_LIBS={tmp_path} must be a folder of jars, but it holds no kafka"):
        KafkaServer().start()


def test_a_broker_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerError, match=r"(?s)its log ends with:.*num\.network\.threads"):
        KafkaServer(properties={"num.network.threads": "none"}).start()
    assert not list(tmp_path.iterdir())


def test_a_user_is_added_once_the_brokers_know_each_mechanism(monkeypatch, tmp_path):
    answers = [["SCRAM-SHA-256", "SCRAM-SHA-512"], ["SCRAM-SHA-256"], []]
    admin = SimpleNamespace(
        alter_user_scram_credentials=lambda credentials: {one.user: None for one in credentials},
        describe_user_scram_credentials=lambda _: {"anna": {"error": None, "credential_infos": answers.pop()}},
    )
    server = KafkaServer(brokers=2)
    monkeypatch.setattr(server, "_admin", lambda: nullcontext(admin))
    with Sandbox() as sandbox:
        server._running = {
            1: sandbox.spawn(["true"], tmp_path / "log"),
            2: sandbox.spawn(["sleep", "60"], tmp_path / "log"),
        }
        server._running[1].wait(60)  # a broker that was killed keeps nobody waiting
        server.add_scram_user("anna", "secret")
    assert not answers
