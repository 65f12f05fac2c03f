"""Runs rules against a connector, each in its own lab and with a deadline, and makes sure that something was tested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, final

from tidegate.conformance.data_source.harness import DataSourceHarnessFactory
from tidegate.conformance.data_source.lab import SourceLab
from tidegate.conformance.harness import HarnessFactory
from tidegate.conformance.lab import processes
from tidegate.conformance.lab.base import PATIENCE_S, BaseLab, ConformanceError, SkippedError, WaitedError
from tidegate.conformance.lab.explain import shown_error
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.lab.processes import Trial
from tidegate.conformance.rules import Rule, Tier, rules_of

if TYPE_CHECKING:
    import pytest

_DEADLINES_S = {Tier.CONTRACT: 60.0, Tier.SPARK: 240.0, Tier.FAULTS: 240.0}


class Status(Enum):
    """The status of a rule after its check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one rule.

    text: why it is not PASSED; empty if it is.
    story: what was done, step by step.
    waited: whether an event that must come did not come in time.
    """

    rule: Rule
    status: Status
    text: str = ""
    story: tuple[str, ...] = ()
    seconds: float = 0.0
    waited: bool = False

    def explained(self) -> str:
        """Return a full explanation."""
        story = "\n".join(f"  {number}. {step}" for number, step in enumerate(self.story, 1))
        parts = (
            f"{self.rule.id} {self.rule.title}: {self.status.value}",
            self.text,
            story and f"What was done:\n{story}",
            f"The rule: {self.rule.text}",
            f"To check it alone: --rule {self.rule.id}, or only=[{self.rule.id!r}]",
        )
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Report:
    """The verdicts about a connector."""

    connector: str
    verdicts: list[Verdict] = field(default_factory=list)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @property
    def failures(self) -> list[Verdict]:
        """The verdicts that need attention."""
        return [verdict for verdict in self.verdicts if verdict.status is Status.FAILED]

    @property
    def conforms(self) -> bool:
        """Whether every rule that was checked holds, and one at least."""
        return not self.failures and any(verdict.status is Status.PASSED for verdict in self.verdicts)

    def __str__(self) -> str:
        counts = [sum(verdict.status is status for verdict in self.verdicts) for status in Status]
        ends = [f"{count} {status.value}" for count, status in zip(counts, Status, strict=True) if count]
        return f"{self.connector} {'conforms' if self.conforms else 'does not conform'}: {', '.join(ends)}"

    def raise_for_failures(self) -> None:
        """Raise ConformanceError, with all failures explained, unless the connector conforms."""
        if not self.conforms:
            raise ConformanceError("\n\n\n".join([str(self), *(verdict.explained() for verdict in self.failures)]))


def check_connector(
    harness: HarnessFactory,
    *,
    tiers: Iterable[Tier] = Tier,
    only: Iterable[str] = (),
    patience_s: float = PATIENCE_S,
    on_verdict: Callable[[Verdict], object] = lambda _: None,
) -> Report:
    """Check a connector by the rules of some tiers, and return the report.

    harness: creates a harness; called for every rule, and many times for WHOLE-1.
    only: ids of the rules to check; none: all of the tiers.
    patience_s: how long a rule waits for an event that must come, such as a row that was written.  After one has waited
        in vain, the others wait for a tenth of it: most wait for the same.  Longer where the machine is overloaded.
    on_verdict: called with each verdict at once; those of quick rules come first.

    Raises OptionError for an unknown rule, and if there is nothing to check.  Failures of the connector raise nothing:
    see ``Report.raise_for_failures``.
    """
    return _check(rules_of(tiers, only), harness, patience_s, on_verdict)


def check_data_source(
    harness: DataSourceHarnessFactory,
    *,
    tiers: Iterable[Tier] = Tier,
    only: Iterable[str] = (),
    patience_s: float = PATIENCE_S,
    on_verdict: Callable[[Verdict], object] = lambda _: None,
) -> Report:
    """Check any Python data source of PySpark, and return the report; the rest is as in ``check_connector``.

    harness: creates a harness; called for every rule.
    """
    return _check(rules_of(tiers, only, SourceLab), harness, patience_s, on_verdict)


def _check(
    rules: Iterable[Rule], harness: Callable[[], Any], patience_s: float, on_verdict: Callable[[Verdict], object]
) -> Report:
    report = Report(_name_of(harness))
    for rule in rules:
        has_waited = any(verdict.waited for verdict in report)
        verdict = judge(rule, harness, patience_s=patience_s / 10 if has_waited else patience_s)
        on_verdict(verdict)
        report.verdicts.append(verdict)
    return report


def judge(
    rule: Rule, harness: Callable[[], Any], *, patience_s: float = PATIENCE_S, deadline_s: float | None = None
) -> Verdict:
    """Test one rule in a thread of its own, and return the verdict.

    deadline_s: after it the thread is abandoned, and the rule has failed; None: the deadline of its tier.
    """

    def test(lab: BaseLab) -> None:
        lab.skip_without(rule.needs)
        rule.test(lab)

    open_lab: Callable[[Any, float], BaseLab] = rule.lab
    trial = Trial(rule.id, partial(open_lab, harness, patience_s), test)
    hung, lab, error = trial.hung(deadline_s or _DEADLINES_S[rule.tier]), trial.lab, trial.error
    if isinstance(error, KeyboardInterrupt):
        raise error
    status, text = Status.FAILED, hung or ""
    if hung is None and isinstance(error, SkippedError):
        status, text = Status.SKIPPED, str(error)
    elif hung is None and error is not None:
        text = shown_error(error, __file__, processes.__file__)
    elif hung is None and (unseen := [what for what in rule.witness if lab is None or what not in lab.seen]):
        text = f"nothing was tested: {' and '.join(unseen)} was never observed"
    elif hung is None:
        status = Status.PASSED
    story = () if lab is None else tuple(lab.story)
    return Verdict(rule, status, text, story, trial.seconds, waited=isinstance(error, WaitedError))


def _name_of(harness: Callable[[], Any]) -> str:
    while isinstance(harness, partial):
        harness = harness.func
    return getattr(harness, "name", "") or getattr(harness, "__name__", type(harness).__name__)


class ConnectorSuite:
    """The kit as a class of tests for pytest: one test for each rule.  The author of a connector writes only this.

        class TestOutbox(ConnectorSuite):
            @pytest.fixture
            def harness(self, database):
                return partial(OutboxHarness, database)

    tiers: of the rules that are tested; ``pytest -m "conformance(tier='contract')"`` selects some of them.
    patience_s: as in ``check_connector``.
    """

    tiers: ClassVar[Iterable[Tier]] = tuple(Tier)
    patience_s: ClassVar[float] = PATIENCE_S
    _lab: ClassVar[type[BaseLab]] = Lab

    @final
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of each rule."""
        if metafunc.function.__name__ == "test_conforms":
            metafunc.parametrize("rule", [_parameter(rule) for rule in rules_of(self.tiers, lab=self._lab)])

    @final
    def test_conforms(self, rule: Rule, harness: Callable[[], Any]) -> None:
        """Test one rule."""
        import pytest

        verdict = judge(rule, harness, patience_s=self.patience_s)
        if verdict.waited:
            type(self).patience_s = min(self.patience_s, PATIENCE_S / 10)
        if verdict.status is Status.SKIPPED:
            pytest.skip(verdict.text)  # its text names what the connector lacks
        if verdict.status is Status.FAILED:
            pytest.fail(verdict.explained(), pytrace=False)


class DataSourceSuite(ConnectorSuite):
    """The same for any Python data source of PySpark.

    class TestOrders(DataSourceSuite):
        @pytest.fixture
        def harness(self, tmp_path):
            return partial(OrdersHarness, tmp_path)
    """

    _lab = SourceLab


def _parameter(rule: Rule) -> Any:
    import pytest

    mark = pytest.mark.conformance(rule=rule.id, tier=rule.tier.name.lower())
    return pytest.param(rule, id=f"{rule.id} {rule.title}", marks=mark)
