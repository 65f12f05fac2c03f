"""tidegate's own connectors, the reference and the example keep the rules: on a real broker, endpoint and database."""

from functools import partial

import pytest
from harness import OutboxHarness

from tests.conformance.harnesses import KafkaHarness, S3Harness
from tidegate.conformance import ConnectorSuite
from tidegate.conformance.memory import MemoryHarness


class TestMemory(ConnectorSuite):
    @pytest.fixture
    def harness(self, spark):
        return MemoryHarness


class TestKafka(ConnectorSuite):
    @pytest.fixture
    def harness(self, kafka, spark):
        return partial(KafkaHarness, kafka)


class TestS3(ConnectorSuite):
    @pytest.fixture
    def harness(self, s3, spark):
        return partial(S3Harness, s3)


class TestOutbox(ConnectorSuite):
    @pytest.fixture
    def harness(self, spark, monkeypatch):
        monkeypatch.setenv("TIDEGATE_CONFORMANCE_DRIVERS", "no")  # Sparks of their own take long; the others start them
        return OutboxHarness
