"""Errors of a Kafka that cannot start.  Tests of sources kill and restart brokers, and ``test_parent`` ends them."""

import pytest

from tidegate.errors import ServerError
from tidegate.servers import KafkaServer


def test_given_jars_that_are_not_kafkas_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_LIBS", str(tmp_path))
    with pytest.raises(ServerError, match=f"KAFKA_LIBS={tmp_path} must be a folder of jars, but it holds no kafka"):
        KafkaServer().start()


def test_a_broker_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerError, match=r"(?s)its log ends with:.*num\.network\.threads"):
        KafkaServer(properties={"num.network.threads": "none"}).start()
    assert not list(tmp_path.iterdir())
