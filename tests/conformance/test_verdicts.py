"""Failures by their causes, and the summary of a report."""

import pytest

from tests.conformance.small import SmallHarness, breaks, small_rule
from tidegate.conformance.checker import check_connector
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.verdicts import Report, Status, Verdict, notes


def test_the_summary_tells_all_that_does_not_simply_hold(small_rules):
    rules = ["SPLIT-1", "READ-1", "READ-2", "READ-3"]
    report = check_connector(SmallHarness, exempt={"READ-3": "issue 12"}, only=rules)
    assert notes(report) == [
        "failed: READ-2 the title of READ-2",
        "exempt: READ-3 the title of READ-3: issue 12",
        "without HOLES: nothing leaves any",
        "without BATCH: asked for by nobody",
    ]


def failed(rule, text="rows are missing", **fields):
    return Verdict(small_rule(rule, breaks), Status.FAILED, text, connector="small", **fields)


ERROR = 'AttributeError: no {}\n  File "index.py", line 7, in heads\n  File "logs.py", line {}, in peek\n    return x'


def test_failures_by_the_same_error_at_the_same_place_are_explained_once():
    report = Report(
        "small",
        (
            failed("SPLIT-1", ERROR.format("app-1", 85), raised=True),
            failed("SPLIT-2", ERROR.format("app-2", 85), raised=True),
            failed("SPLIT-3", ERROR.format("app-1", 90), raised=True),
            failed("READ-1"),
            failed("READ-2"),
            failed("TIME-1", ERROR.format("app-3", 85), raised=True),
        ),
    )
    causes = [[verdict.rule.id for verdict in cause] for cause in report.causes]
    assert causes == [["READ-1"], ["READ-2"], ["SPLIT-1", "SPLIT-2", "TIME-1"], ["SPLIT-3"]]
    shared = report.explanations[2]
    assert shared.endswith("The same cause breaks 2 more: SPLIT-2, TIME-1")
    assert "The same error" not in "".join(explanation for explanation in report.explanations if explanation != shared)
    with pytest.raises(ConformanceError, match="breaks 2 more: SPLIT-2, TIME-1") as raised:
        report.raise_for_failures()
    assert str(raised.value).count("in peek") == 2


def test_the_summary_tells_what_this_machine_cannot_check():
    rules = small_rule("READ-1"), small_rule("READ-2"), small_rule("READ-3")
    missing = "Hypothesis is not installed"
    verdicts = [Verdict(rule, Status.SKIPPED, missing, here_only=True) for rule in rules[:2]]
    report = Report("small", (*verdicts, Verdict(rules[2], Status.SKIPPED, "it has no HOLES")))
    assert notes(report) == ["skipped here: READ-1, READ-2: Hypothesis is not installed"]
