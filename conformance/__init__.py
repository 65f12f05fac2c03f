"""The conformance kit: proves that a connector keeps the contracts, and explains where it does not.

    from functools import partial

    from tidegate.conformance import ConnectorSuite

    class TestOutbox(ConnectorSuite):
        @pytest.fixture
        def harness(self, database):
            return partial(OutboxHarness, database)

The same without pytest: ``check_connector``, and ``tidegate conformance mypkg:OutboxHarness``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.conformance.abilities import FAULTS, Abilities, Ability
    from tidegate.conformance.checker import check_connector
    from tidegate.conformance.errors import ConformanceError
    from tidegate.conformance.harness import Fault, Harness, HarnessFactory, Row, Writer
    from tidegate.conformance.rules import Rule, Tier, all_rules
    from tidegate.conformance.suite import ConnectorSuite
    from tidegate.conformance.verdicts import Report, Status, Verdict

__all__ = [
    "FAULTS",
    "Abilities",
    "Ability",
    "ConformanceError",
    "ConnectorSuite",
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
]

_HOMES = {
    "FAULTS": "abilities",
    "Abilities": "abilities",
    "Ability": "abilities",
    "ConformanceError": "errors",
    "ConnectorSuite": "suite",
    "Report": "verdicts",
    "Rule": "rules",
    "Status": "verdicts",
    "Tier": "rules",
    "Verdict": "verdicts",
    "all_rules": "rules",
    "check_connector": "checker",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'tidegate.conformance' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"tidegate.conformance.{_HOMES.get(name, 'harness')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
