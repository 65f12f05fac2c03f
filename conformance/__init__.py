"""The conformance kit: proves that a connector keeps the contracts, and explains where it does not.

    class TestOutbox(ConnectorSuite):
        @pytest.fixture
        def harness(self, database):
            return partial(OutboxHarness, database)

The same without pytest: ``check_connector``, and ``tidegate conformance mypkg:OutboxHarness``.  Any Python data
source of PySpark is tested by ``DataSourceSuite``, ``check_data_source`` and the same command.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.conformance.checker import (
        ConnectorSuite,
        DataSourceSuite,
        Report,
        Status,
        Verdict,
        check_connector,
        check_data_source,
    )
    from tidegate.conformance.data_source.harness import DataSourceHarness, DataSourceHarnessFactory
    from tidegate.conformance.harness import (
        FAULTS,
        Abilities,
        Ability,
        Fault,
        Harness,
        HarnessFactory,
        Row,
        Writer,
    )
    from tidegate.conformance.lab.base import ConformanceError
    from tidegate.conformance.rules import Rule, Tier, all_rules

__all__ = [
    "FAULTS",
    "Abilities",
    "Ability",
    "ConformanceError",
    "ConnectorSuite",
    "DataSourceHarness",
    "DataSourceHarnessFactory",
    "DataSourceSuite",
    "Fault",
    "Harness",
    "HarnessFactory",
    "Report",
    "Row",
    "Rule",
    "Status",
    "Tier",
    "Verdict",
    "Writer",
    "all_rules",
    "check_connector",
    "check_data_source",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: pytest imports this package in every run (PEP 562)."""
    for module in ("harness", "rules", "data_source.harness", "checker") if name in __all__ else ():
        home = import_module(f"tidegate.conformance.{module}")
        if hasattr(home, name):
            globals()[name] = value = getattr(home, name)
            return value
    raise AttributeError(f"module 'tidegate.conformance' has no attribute {name!r}")
