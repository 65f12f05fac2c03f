"""Runs of queries over topics of the broker, and what tests leave behind that kill brokers."""

import gc
from contextlib import ExitStack, closing

import pytest

from tests.enumerators.kafka.test_recreation import Run
from tidegate.readers.kafka import cluster


@pytest.fixture
def run(kafka):
    """Make runs, and close them at the end."""
    with ExitStack() as made:
        yield lambda *topics, **fields: made.enter_context(closing(Run(kafka, *topics, **fields)))


@pytest.fixture
def _known_at_once(monkeypatch):
    """A single broker knows a topic as soon as it has created it."""
    monkeypatch.setattr(cluster, "UNKNOWN_TOPIC_GRACE_S", 0.5)


@pytest.fixture
def _left_to_no_other_test():
    yield
    gc.collect()
