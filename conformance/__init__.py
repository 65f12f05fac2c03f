"""The conformance kit: proves that a connector keeps the contracts, and explains where it does not.

    from functools import partial

    from tidegate.conformance import ConnectorSuite

    class TestOutbox(ConnectorSuite):
        @pytest.fixture
        def harness(self, database):
            return partial(OutboxHarness, database)

The same without pytest: ``check_connector``, ``tidegate conformance mypkg:OutboxHarness``, and a function for
each rule, such as ``check_rows_come_once_and_in_order``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.conformance.abilities import FAULTS, Abilities, Ability
    from tidegate.conformance.checker import check_connector
    from tidegate.conformance.errors import ConformanceError
    from tidegate.conformance.harness import Fault, Harness, HarnessFactory, Row, Writer
    from tidegate.conformance.rules import Level, Rule, Tier, all_rules
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
    "Level",
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
    "Level": "rules",
    "Report": "verdicts",
    "Rule": "rules",
    "Status": "verdicts",
    "Tier": "rules",
    "Verdict": "verdicts",
    "all_rules": "rules",
    "check_connector": "checker",
}


def __getattr__(name: str) -> Any:
    """Import a public name, or the check of a rule, when it is first used (PEP 562)."""
    if name in __all__:
        value = getattr(import_module(f"tidegate.conformance.{_HOMES.get(name, 'harness')}"), name)
    else:
        value = _checks().get(name) if name.startswith("check_") else None
        if value is None:
            raise AttributeError(f"module 'tidegate.conformance' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_checks()})


def _checks() -> dict[str, Any]:
    from tidegate.conformance.rules import all_rules

    return {rule.test.__name__: rule.check for rule in all_rules()}
