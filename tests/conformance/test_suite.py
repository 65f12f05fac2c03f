"""The suite and the plugin, as pytest runs and shows them."""

import importlib
import json
import sys
from pathlib import Path

import pytest

import tidegate.conformance.checks  # noqa: F401 - else every run within this process imports it again
from tidegate.conformance import ConnectorSuite
from tidegate.errors import OptionError

pytest_plugins = ("pytester",)

ROOT = Path(__file__).parents[2]

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
    for part in ("row 0#7 is missing", "1. split 0: create", "- the cable", "The rule (MUST): The purpose of READ-2."):
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
    result = run("--conformance-tier", "spark")
    result.assert_outcomes(passed=1, deselected=4)
    result.stdout.fnmatch_lines(["conformance: tier spark"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--conformance-tier", "sparc"), "--conformance-tier is 'sparc', but contract, *; did you mean 'spark'?"),
        (("--conformance-report", "a.txt"), "--conformance-report is 'a.txt', but a file that ends in *"),
    ],
)
def test_an_option_that_is_none_is_one_sentence(run, arguments, sentence):
    result = run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])


def test_the_summary_tells_what_became_of_each_area(run):
    run("-q").stdout.fnmatch_lines(
        [
            "*= conformance of small (test_small.py::TestSmall) =*",
            "SPLIT *discovery of splits *1 skipped",
            "READ *rows of ranges *1 passed, 2 failed",
            "SPARK *1 passed",
            "failed: READ-2 the title of READ-2 (MUST)",
            "failed: READ-3 the title of READ-3 (SHOULD)",
            "without HOLES: cannot: nothing leaves any",
            "without BATCH: does not yet: asked for by nobody",
            "small does not conform: 2 passed, 2 failed, 1 skipped",
        ]
    )


def test_a_run_without_connectors_shows_nothing_and_imports_nothing(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            assert "tidegate.conformance.pytest_plugin" in sys.modules
            heavy = {"pyspark", "pyarrow", "pydantic", "rich", "hypothesis", "tidegate.conformance.rules"}
            assert heavy & set(sys.modules) == set()
        """
    )
    # Hypothesis has a plugin of its own.
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    assert "conformance" not in str(result.stdout).replace("tidegate", "")


@pytest.mark.slow
def test_reports_are_written_wherever_the_tests_ran(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the file imports tests
    pytester.makepyfile(
        test_memory="""
        import pytest
        from tidegate.conformance import Abilities, Ability, ConnectorSuite
        from tests.conformance.memory.reference import MemoryHarness

        class Stream(MemoryHarness):
            abilities = Abilities().not_yet(Ability.BATCH, "nobody asked")

        class TestMemory(ConnectorSuite):
            @pytest.fixture
            def harness(self):
                return Stream
        """
    )
    tests = [
        f"test_memory.py::TestMemory::{name}"
        for name in (
            "test_conforms[READ-3 every range gives the rows of its positions]",
            "test_conforms[READ-1 rows come once and in order]",
        )
    ]
    files = ("--conformance-report", "sub/report.json", "--conformance-report", "report.html")
    result = pytester.runpytest_subprocess("-n", "1", "-p", "no:cacheprovider", *files, *tests)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["Stream breaks no rule that was checked: 2 passed, * not checked"])
    written = json.loads((pytester.path / "sub/report.json").read_text())
    (report,) = written["reports"]
    assert written["version"] == 1
    assert (report["connector"], report["conforms"], report["counts"]["passed"]) == ("Stream", True, 2)
    assert [(rule["rule"], rule["status"]) for rule in report["rules"]] == [("READ-1", "passed"), ("READ-3", "passed")]
    assert report["optedOut"] == [{"ability": "BATCH", "why": "does not yet", "reason": "nobody asked"}]
    assert "nobody asked" in (pytester.path / "report.html").read_text()


def test_a_report_without_a_connector_is_not_written_and_that_is_reported(pytester):
    pytester.makepyfile("def test_nothing():\n    pass\n")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--conformance-report", "report.html")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["no conformance report, for no connector was tested: *report.html"])
    assert not (pytester.path / "report.html").exists()


def test_overriding_a_test_needs_a_reason():
    with pytest.raises(OptionError, match=r"TestMine overrides test_conforms\(\), which would hide what it tests"):
        type("TestMine", (ConnectorSuite,), {"test_conforms": None})
    with pytest.raises(OptionError, match="needs a reason"):
        type("TestMine", (ConnectorSuite,), {"test_conforms": None, "overrides": {"test_conforms": " "}})
    type("TestMine", (ConnectorSuite,), {"test_conforms": None, "overrides": {"test_conforms": "issue 12"}})


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("test_conforms", r"gives a reason for test_conforms\(\), which is not overridden"),
        ("test_conform", r"names 'test_conform'; did you mean 'test_conforms'\?"),
    ],
)
def test_a_reason_for_what_is_not_overridden_is_refused(name, sentence):
    with pytest.raises(OptionError, match=sentence):
        type("TestMine", (ConnectorSuite,), {"overrides": {name: "issue 12"}})


def test_without_pytest_the_suite_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", None)
    monkeypatch.delitem(sys.modules, "tidegate.conformance.suite")
    with pytest.raises(ImportError, match=r"ConnectorSuite needs pytest: pip install 'tidegate\[conformance\]'"):
        importlib.import_module("tidegate.conformance.suite")
