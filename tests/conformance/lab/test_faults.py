import sys

import pytest

from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.lab.faults import Attempt
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.memory.reference import MemoryHarness


def test_an_attempt_that_ends_its_process_does_not_succeed():
    lab = Lab(MemoryHarness)
    try:
        with pytest.raises(ConformanceError, match=r"reading raises builtins\.SystemExit, not a ConnectorError"):
            Attempt(lab, "reading", lambda: sys.exit("gone")).start().end()
    finally:
        lab.close()
