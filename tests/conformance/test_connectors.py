"""tidegate's connectors, the reference and the example keep the rules, on a real broker, endpoint and database.

Rules that run queries of Spark are tested with topics.  Queries over archives and objects are in
``tests/sources``, and ``tests/sources/test_kills.py`` continues streams to which more objects come.  Rules about a
side that fails are tested with objects, too.  The reference is the base of the mutants, and the example has tests of
its own.  Each connector gets only LIVES lives of a query.  With ALL_RULES=yes, it gets as many as in a user's run, and
all rules are tested everywhere.
"""

import os
from functools import partial

import pytest
from harness import OutboxHarness

from tests.conformance.harnesses import ArchivedHarness, KafkaHarness, S3Harness, TableHarness
from tests.conformance.memory.reference import MemoryHarness
from tidegate.conformance import ConnectorSuite, Tier
from tidegate.conformance.checks import align

LIVES = 3
EVERYTHING = "ALL_RULES" in os.environ
WITHOUT_SPARK = tuple(tier for tier in Tier if tier is not Tier.SPARK or EVERYTHING)
IN_PROCESS = tuple(tier for tier in Tier if tier not in {Tier.SPARK, Tier.FAULTS} or EVERYTHING)


@pytest.fixture
def fails(rule):
    """Whether the other side has to fail, which takes longer.

    LIFE-2 counts sockets.  The pool of a process keeps one or two to an endpoint, but none to a proxy before it.
    """
    return rule.tier is Tier.FAULTS or rule.id == "LIFE-2"


@pytest.fixture(autouse=True)
def _few_lives(monkeypatch):
    if not EVERYTHING:
        monkeypatch.setattr(align, "_SECONDS", 0)
        monkeypatch.setattr(align, "_FEWEST_LIVES", LIVES)


def _leave_to_others(rule):
    if rule.id == "FAULT-6" and not EVERYTHING:
        pytest.skip(
            "TestKafka shows how a stream fails, test_odd_endpoints how objects do, and test_kills how both go on"
        )


class TestMemory(ConnectorSuite):
    tiers = IN_PROCESS

    @pytest.fixture
    def harness(self):
        return MemoryHarness


class TestKafka(ConnectorSuite):
    @pytest.fixture
    def harness(self, kafka, fails):
        return partial(KafkaHarness, kafka, fails=fails)


class TestArchive(ConnectorSuite):
    tiers = WITHOUT_SPARK

    @pytest.fixture
    def harness(self, kafka, fails, rule):
        _leave_to_others(rule)
        # In FAULT-5 the archive gives the first rows, and the others wait until the broker is back.
        return partial(ArchivedHarness, kafka, fails=fails and rule.id != "FAULT-5")


class TestTable(ConnectorSuite):
    tiers = IN_PROCESS

    @pytest.fixture
    def harness(self, kafka, fails, rule):
        return partial(TableHarness, kafka, fails=fails and rule.id != "FAULT-5")


class TestS3(ConnectorSuite):
    tiers = WITHOUT_SPARK

    @pytest.fixture
    def harness(self, s3, fails, rule):
        _leave_to_others(rule)
        # A life whose objects are cleaned as soon as they are read finds out if one is cleaned too early.
        return partial(S3Harness, s3, fails=fails, cleans=rule.id == "WHOLE-1")


class TestOutbox(ConnectorSuite):
    tiers = IN_PROCESS

    @pytest.fixture
    def harness(self):
        return OutboxHarness
