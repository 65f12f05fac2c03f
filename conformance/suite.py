"""The kit as a class of tests for pytest; the author of a connector writes only this.

    class TestOutbox(ConnectorSuite):
        @pytest.fixture
        def harness(self, database):
            return partial(OutboxHarness, database)

Each rule is a test, with pytest's outcomes: passed, skipped, xfailed, failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

try:
    import pytest
except ImportError as error:
    raise ImportError("ConnectorSuite needs pytest: pip install 'tidegate[conformance]'") from error

from tidegate.conformance.checker import SHORT_PATIENCE_S, checked_exemptions, judge
from tidegate.conformance.harness import HarnessFactory
from tidegate.conformance.lab.lab import PATIENCE_S
from tidegate.conformance.rules import Rule, Tier, rules_of
from tidegate.conformance.verdicts import Status
from tidegate.errors import OptionError


class ConnectorSuite:
    """One test for each rule.

    A subclass has a fixture ``harness`` that returns a HarnessFactory: a class, or a partial of one.

    tiers: of the rules that are tested; ``pytest -m "conformance(tier='contract')"`` selects some of them.
    exempt: rules that are known to fail, by id, with the reason; a rule that holds is then a failure.
    patience_s: how long a rule waits for an event; less once another has waited in vain.
    """

    tiers: ClassVar[Iterable[Tier]] = tuple(Tier)
    exempt: ClassVar[Mapping[str, str]] = {}
    patience_s: ClassVar[float] = PATIENCE_S

    @final
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of each rule."""
        try:
            checked_exemptions(self.exempt)
        except OptionError as error:
            pytest.fail(f"{type(self).__name__}.exempt: {error}", pytrace=False)
        if metafunc.function.__name__ == "test_conforms":
            metafunc.parametrize("rule", [_parameter(member) for member in rules_of(self.tiers)])

    @final
    def test_conforms(self, rule: Rule, harness: HarnessFactory) -> None:
        """Test one rule."""
        verdict = judge(rule, harness, exempt=self.exempt.get(rule.id), patience_s=self.patience_s)
        if verdict.waited:
            type(self).patience_s = SHORT_PATIENCE_S
        if verdict.status is Status.SKIPPED:
            pytest.skip(verdict.text)  # its text names what the connector, or this machine, lacks
        if verdict.status is Status.EXEMPT:
            pytest.xfail(self.exempt[rule.id])
        if verdict.status is not Status.PASSED:
            pytest.fail(verdict.explained(), pytrace=False)


def _parameter(rule: Rule) -> Any:
    mark = pytest.mark.conformance(rule=rule.id, tier=rule.tier.name.lower())
    return pytest.param(rule, id=f"{rule.id} {rule.title}", marks=mark)
