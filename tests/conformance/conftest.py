import threading

import pytest

from tests.conformance.small import RULES
from tidegate.conformance import rules
from tidegate.conformance.data_source.lab import SourceLab
from tidegate.conformance.lab.processes import Trial

IN_SPARK = {rules.Tier.SPARK, rules.Tier.FAULTS}


def pytest_itemcollected(item):
    """Make rules that run queries use the session of all tests.  Else they start one that other tests then use."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    tested = parameters.get("rule") or ("mutant" in parameters and rules.rule_named(parameters["mutant"].killer))
    if isinstance(tested, rules.Rule) and (tested.tier in IN_SPARK or tested.lab is SourceLab):
        item.fixturenames = ["spark", *item.fixturenames]


@pytest.fixture
def small_rules(monkeypatch):
    """Replace all rules by a few small ones."""
    rules.all_rules()
    monkeypatch.setattr(rules, "_RULES", {rule.id: rule for rule in RULES})
    return RULES


@pytest.fixture
def hangs(monkeypatch):
    """Return an event that code sets before it hangs; its deadline counts from there."""
    waits = threading.Event()

    def join(trial, seconds):
        assert waits.wait(60)
        threading.Thread.join(trial, seconds)

    monkeypatch.setattr(Trial, "join", join)
    return waits
