"""tidegate's own connectors, the reference and the example keep the rules: on a real broker, endpoint and database.

Rules that start Sparks of their own (SPARK-10, SPARK-11, FAULT-7) run on the broker and on the endpoint, for such a
Spark takes long.  Of the reference the mutants are made that these rules must find.
"""

from functools import partial

import pytest
from harness import OutboxHarness

from tests.conformance.harnesses import KafkaHarness, S3Harness
from tidegate.conformance import ConnectorSuite
from tidegate.conformance.memory.reference import MemoryHarness


@pytest.fixture
def no_drivers(monkeypatch):
    monkeypatch.setenv("TIDEGATE_CONFORMANCE_DRIVERS", "no")


class TestMemory(ConnectorSuite):
    @pytest.fixture
    def harness(self, spark, no_drivers):
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
    def harness(self, spark, no_drivers):
        return OutboxHarness
