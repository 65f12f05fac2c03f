"""The suite and the plugin, as pytest runs and shows them."""

import importlib
import sys

import pytest

import tidegate.conformance.checks  # noqa: F401 - else every run within this process imports it again

pytest_plugins = ("pytester",)

HEAD = """
import pytest
from tests.conformance.small import SmallHarness
from tidegate.conformance import Abilities, Ability, ConnectorSuite, Tier

class TestSmall(ConnectorSuite):
    @pytest.fixture
    def harness(self):
        return SmallHarness
"""


@pytest.fixture
def run(pytester, small_rules):
    """Test the small connector, with further lines in its class, and with arguments for pytest."""

    def run(*arguments, lines=""):
        pytester.makepyfile(test_small=HEAD + "".join(f"\n    {line}" for line in lines.splitlines()))
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)

    return run


def test_every_rule_is_a_test_by_its_id_and_title(run):
    result = run("-v")
    result.assert_outcomes(passed=2, failed=2, skipped=1)
    result.stdout.fnmatch_lines(
        ["test_small.py::TestSmall::test_conforms[[]READ-1 the title of READ-1[]] PASSED*"],
    )


def test_a_failure_explains_itself_without_the_stack_of_the_kit(run):
    text = str(run("-m", "conformance(rule='READ-2')").stdout)
    for part in ("row 0#7 is missing", "1. split 0: create", "- the cable", "The rule: The purpose of READ-2."):
        assert part in text
    assert "suite.py" not in text
    assert "checker.py" not in text


def test_an_exempt_rule_is_expected_to_fail(run):
    exempt = "exempt = {'READ-2': 'issue 12'}"
    result = run("-rx", "-k", "READ-2", lines=exempt)
    result.assert_outcomes(xfailed=1, deselected=4)
    result.stdout.fnmatch_lines(["XFAIL*issue 12"])
    run("--runxfail", "-k", "READ-2", lines=exempt).assert_outcomes(failed=1, deselected=4)


@pytest.mark.parametrize(
    ("exempt", "sentence"),
    [
        ("{'REED-1': 'issue 12'}", "TestSmall.exempt: there is no rule 'REED-1'; did you mean 'READ-1'?"),
        ("{'READ-1': ' '}", "TestSmall.exempt: READ-1 is exempt without a reason"),
    ],
)
def test_an_exemption_that_is_none_is_an_error_at_collection(run, exempt, sentence):
    result = run(lines=f"exempt = {exempt}")
    result.assert_outcomes(errors=1)
    assert sentence in str(result.stdout)
    assert "suite.py" not in str(result.stdout)


def test_tiers_are_chosen_by_the_class_and_on_the_command_line(run):
    run(lines="tiers = (Tier.SPARK,)").assert_outcomes(passed=1)
    run("-m", "conformance(tier='spark')", "--strict-markers").assert_outcomes(passed=1, deselected=4)


def test_without_pytest_the_suite_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", None)
    monkeypatch.delitem(sys.modules, "tidegate.conformance.suite", raising=False)
    with pytest.raises(ImportError, match=r"ConnectorSuite needs pytest: pip install 'tidegate\[conformance\]'"):
        importlib.import_module("tidegate.conformance.suite")
