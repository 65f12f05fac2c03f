import threading

import pytest

from tests.conformance.small import RULES
from tidegate.conformance import rules
from tidegate.conformance.lab.trial import Trial


@pytest.fixture
def small_rules(monkeypatch):
    """Let a few small rules be all that there are."""
    rules.all_rules()
    monkeypatch.setattr(rules, "_RULES", {rule.id: rule for rule in RULES})
    return RULES


@pytest.fixture
def hangs(monkeypatch):
    """Return an event that what hangs sets when it has come so far: its deadline counts from there."""
    waits = threading.Event()

    def join(trial, seconds):
        assert waits.wait(60)
        threading.Thread.join(trial, seconds)

    monkeypatch.setattr(Trial, "join", join)
    return waits
