"""The kit as a class of tests for pytest; the author of a connector writes only this.

    class TestOutbox(ConnectorSuite):
        @pytest.fixture
        def harness(self, database):
            return partial(OutboxHarness, database)

Each rule is a test, with pytest's outcomes: passed, skipped, xfailed, failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

try:
    import pytest
except ImportError as error:
    raise ImportError("ConnectorSuite needs pytest: pip install 'tidegate[conformance]'") from error

from tidegate.conformance.checker import SHORT_PATIENCE_S, checked_exemptions, judge
from tidegate.conformance.harness import HarnessFactory
from tidegate.conformance.lab.lab import PATIENCE_S
from tidegate.conformance.pytest_plugin import VERDICT
from tidegate.conformance.report.json import verdict_sent
from tidegate.conformance.rules import Rule, Tier, rules_of
from tidegate.conformance.verdicts import Status
from tidegate.errors import OptionError, did_you_mean


class ConnectorSuite:
    """One test for each rule.

    A subclass has a fixture ``harness`` that returns a HarnessFactory: a class, or a partial of one.

    tiers: of the rules that are tested; ``pytest --conformance-tier`` selects some of them.
    exempt: rules that are known to fail, by id, with the reason; a rule that holds is then a failure.
    overrides: methods of this class that the subclass overrides, by name, with the reason.
    patience_s: how long a rule waits for an event; less once another has waited in vain.
    """

    tiers: ClassVar[Iterable[Tier]] = tuple(Tier)
    exempt: ClassVar[Mapping[str, str]] = {}
    overrides: ClassVar[Mapping[str, str]] = {}
    patience_s: ClassVar[float] = PATIENCE_S

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Raise OptionError for a method that is overridden, unless ``overrides`` says why."""
        super().__init_subclass__(**keywords)
        for name in _GUARDED:
            overridden = getattr(cls, name) is not getattr(ConnectorSuite, name)
            if overridden and not cls.overrides.get(name, "").strip():
                raise OptionError(
                    f"{cls.__name__} overrides {name}(), which would hide what it tests; a rule that is known to fail "
                    f"belongs into exempt, and all else needs a reason: overrides = {{{name!r}: '...'}}"
                )
            if name in cls.overrides and not overridden:
                raise OptionError(f"{cls.__name__}.overrides gives a reason for {name}(), which is not overridden")
        for name in cls.overrides:
            if name not in _GUARDED:
                raise OptionError(f"{cls.__name__}.overrides names {name!r}{did_you_mean(name, _GUARDED)}")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of each rule."""
        try:
            checked_exemptions(self.exempt)
        except OptionError as error:
            pytest.fail(f"{type(self).__name__}.exempt: {error}", pytrace=False)
        if metafunc.function.__name__ == "test_conforms":
            metafunc.parametrize("rule", [_parameter(member) for member in rules_of(self.tiers)])

    def test_conforms(self, rule: Rule, harness: HarnessFactory, request: pytest.FixtureRequest) -> None:
        """Test one rule."""
        verdict = judge(rule, harness, exempt=self.exempt.get(rule.id), patience_s=self.patience_s)
        if verdict.waited:
            type(self).patience_s = SHORT_PATIENCE_S
        request.node.stash[VERDICT] = verdict_sent(verdict)
        if verdict.status is Status.SKIPPED:
            pytest.skip(verdict.text)  # its text names the missing ability, or the variable that forbids it
        if verdict.status is Status.EXEMPT:
            pytest.xfail(self.exempt[rule.id])
        if verdict.status is not Status.PASSED:
            pytest.fail(verdict.explained(), pytrace=False)


_GUARDED = ("test_conforms", "pytest_generate_tests")


def _parameter(rule: Rule) -> Any:
    mark = pytest.mark.conformance(rule=rule.id, level=rule.level.name.lower(), tier=rule.tier.name.lower())
    return pytest.param(rule, id=f"{rule.id} {rule.title}", marks=mark)
