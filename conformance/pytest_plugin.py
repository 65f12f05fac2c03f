"""The pytest plugin: pytest knows the marker of ConnectorSuite's tests, also in runs with ``--strict-markers``.

pytest loads it in every run where tidegate is installed, so it imports nothing else.
"""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "conformance(rule, tier): tests a connector by a rule of tidegate.")
