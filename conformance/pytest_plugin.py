"""The pytest plugin: pytest knows the marker of ConnectorSuite's tests, and stays silent about kafka-python's imports.

pytest loads it in every run where tidegate is installed, so it imports nothing else.
"""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and leave out kafka-python's 218 warnings about how it loads its messages."""
    config.addinivalue_line("markers", "conformance(rule, tier): tests a connector by a rule of tidegate.")
    config.addinivalue_line("filterwarnings", r"ignore:read_text is deprecated:DeprecationWarning:kafka\.")
    config.addinivalue_line("filterwarnings", r"ignore:open_text is deprecated:DeprecationWarning:importlib\.")
