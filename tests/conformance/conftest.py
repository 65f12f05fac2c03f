import pytest

from tests.conformance.small import RULES
from tidegate.conformance import rules


@pytest.fixture
def small_rules(monkeypatch):
    """Let a few small rules be all that there are."""
    rules.all_rules()
    monkeypatch.setattr(rules, "_RULES", {rule.id: rule for rule in RULES})
    return RULES
