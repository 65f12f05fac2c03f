"""The outbox connector keeps every rule: ``pytest`` in this folder."""

import pytest
from harness import OutboxHarness

from tidegate.conformance import ConnectorSuite


class TestOutbox(ConnectorSuite):
    """Every rule is a test."""

    @pytest.fixture(scope="class")
    def harness(self) -> type[OutboxHarness]:
        """Return the class that makes harnesses."""
        return OutboxHarness
