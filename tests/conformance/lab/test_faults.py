import sys

import pytest

from tests.conformance.memory.reference import MemoryHarness
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.lab.faults import Attempt
from tidegate.conformance.lab.lab import Lab


def test_an_attempt_that_ends_its_process_does_not_succeed():
    lab = Lab(MemoryHarness)
    try:
        with pytest.raises(ConformanceError, match=r"reading raises builtins\.SystemExit, not a ConnectorError"):
            Attempt(lab, "reading", lambda: sys.exit("gone")).start().end()
    finally:
        lab.close()
