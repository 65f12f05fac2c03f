"""The verdict on a rule, whatever its test, its connector and its harness do; and the suite, as pytest shows it."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.conformance.memory.reference import MemoryEnumerator, MemoryHarness
from tests.conformance.references import sinful
from tests.conformance.small import SmallHarness, breaks, holds, small_rule
from tidegate.conformance.checker import Report, Status, check_connector, judge
from tidegate.conformance.harness import Ability, Fault
from tidegate.conformance.lab.base import ConformanceError, SkippedError
from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.rules import Tier
from tidegate.errors import OptionError


def judged(test, **arguments):
    return judge(small_rule("READ-1", test, witness=arguments.pop("witness", ())), SmallHarness, **arguments)


def raises(error):
    def test(lab):
        raise error

    return test


def test_a_rule_that_holds_passes():
    verdict = judged(holds, witness=("a witness",))
    assert (verdict.status, verdict.text) == (Status.PASSED, "")


def test_a_broken_rule_tells_what_was_done_what_to_look_at_and_how_to_try_it_alone():
    verdict = judged(breaks)
    assert verdict.status is Status.FAILED
    explained = verdict.explained()
    for part in ("READ-1 It breaks: failed", "row 0#7 is missing", "1. split 0: create"):
        assert part in explained
    assert "The rule: For a reason. Look at: the cable." in explained
    assert "--rule READ-1, or only=['READ-1']" in explained
    assert "Traceback" not in explained


def test_what_a_connector_raises_is_reported_with_its_own_stack():
    def test(lab):
        Path("/no/such/file").read_text()

    verdict = judged(test)
    assert verdict.status is Status.FAILED
    assert verdict.text.startswith("FileNotFoundError: [Errno 2]")
    assert "in test" in verdict.text
    assert "/checker.py" not in verdict.text


def test_rows_that_are_never_found_are_waited_for_once():
    class LooksOnce(MemoryEnumerator):
        known = None

        def discover(self):
            self.known = self.known or super().discover()
            return self.known

    report = check_connector(sinful(enumerator=LooksOnce), only=["SPLIT-1", "SPLIT-11", "READ-9"], patience_s=0.4)
    waits = [verdict.text.splitlines()[0].rpartition("(")[2] for verdict in report.failures]
    assert waits == ["waited 0.4 s)", "waited 0.04 s)", "waited 0.04 s)"]
    assert "discover() and extents(), which must ask each time" in report.failures[-1].text


def test_a_rule_that_never_saw_what_it_is_about_was_not_exercised():
    verdict = judged(holds, witness=("a witness", "a pause"))
    assert verdict.status is Status.FAILED
    assert verdict.text == "nothing was tested: a pause was never observed"


def test_a_rule_that_does_not_end_is_left_alone_and_every_thread_is_shown(hangs):
    release = threading.Event()

    def waits_for_ever(lab):
        lab.tell("wait for what never comes")
        hangs.set()
        release.wait()

    verdict = judged(waits_for_ever, deadline_s=0.1)
    release.set()
    assert verdict.status is Status.FAILED
    assert verdict.text.startswith("it did not end within 0.1 s\nthread conformance-READ-1:\n")
    assert "in waits_for_ever" in verdict.text
    assert "thread MainThread:" in verdict.text
    assert "1. wait for what never comes" in verdict.explained()


@pytest.mark.parametrize("when_closed", [False, True])
def test_a_rule_that_hangs_itself_or_when_it_is_closed_leaves_nothing_open(hangs, when_closed):
    closed, ended = [], threading.Event()

    class Harness(SmallHarness):
        def close(self):
            closed.append("harness")
            ended.set()

    def hang():
        hangs.set()
        ended.wait()

    def test(lab):
        lab.at_close(lambda: closed.append("connection"))
        if when_closed:
            lab.at_close(hang)
        else:
            hang()

    assert judge(small_rule("READ-1", test), Harness, deadline_s=0.1).text.startswith("it did not end")
    assert closed == ["connection", "harness"]


def test_a_rule_whose_need_is_opted_out_of_is_skipped_untested():
    verdict = judge(small_rule("READ-1", breaks, needs={Ability.HOLES}), SmallHarness)
    assert (verdict.status, verdict.text) == (Status.SKIPPED, "small has no HOLES: nothing leaves any")


def test_a_harness_that_cannot_be_made_fails_every_rule_by_its_own_error(small_rules):
    class Unreachable(SmallHarness):
        def __init__(self):
            raise ConnectionError("nobody listens at port 9")

    report = check_connector(Unreachable)
    assert [verdict.status for verdict in report] == [Status.FAILED] * len(small_rules)
    assert all("ConnectionError: nobody listens at port 9" in verdict.text for verdict in report)
    assert not report.conforms


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("create_split", lambda _: None, "small.create_split() gives a NoneType instead of Writer"),
        ("source", lambda *_: {}, "small.source() gives a dict instead of Source"),
        ("abilities", {Ability.HOLES}, "small.abilities gives a set instead of Abilities"),
    ],
)
def test_what_a_harness_gives_instead_of_what_the_kit_needs_is_named(name, value, sentence):
    def test(lab):
        if name != "source":
            lab.split()
        lab.source()

    harness = type("Odd", (SmallHarness,), {name: value})
    assert sentence in judge(small_rule("READ-1", test), harness).text


def test_what_went_wrong_first_is_what_is_reported():
    class FailsToClose(SmallHarness):
        def close(self):
            raise RuntimeError("a lock is still held")

    assert judge(small_rule("READ-1", breaks), FailsToClose).text == "row 0#7 is missing"


def test_everything_is_closed_though_one_thing_fails_to():
    closed = []

    class Harness(SmallHarness):
        def close(self):
            closed.append("harness")

    def test(lab):
        lab.at_close(lambda: closed.append("first"))
        lab.at_close(sys.exit)
        lab.at_close(lambda: 1 / 0)
        lab.at_close(lambda: closed.append("last"))

    verdict = judge(small_rule("READ-1", test), Harness)
    assert verdict.text.startswith("ZeroDivisionError")
    assert closed == ["last", "first", "harness"]


def test_what_a_rule_cannot_test_is_skipped():
    verdict = judged(raises(SkippedError("no Spark here")))
    assert (verdict.status, verdict.text) == (Status.SKIPPED, "no Spark here")


def test_an_interruption_of_whoever_waits_for_the_rule_passes():
    release = threading.Event()

    def interrupts(lab):
        os.kill(os.getpid(), signal.SIGINT)
        release.wait()

    with pytest.raises(KeyboardInterrupt):
        judged(interrupts)
    release.set()


def test_a_connector_is_checked_by_all_rules_of_the_tiers(small_rules):
    seen = []
    report = check_connector(SmallHarness, tiers=[Tier.CONTRACT], on_verdict=seen.append)
    ends = {verdict.rule.id: verdict.status for verdict in report}
    assert ends == {
        "SPLIT-1": Status.SKIPPED,
        "READ-1": Status.PASSED,
        "READ-2": Status.FAILED,
        "READ-3": Status.FAILED,
    }
    assert seen == report.verdicts
    assert [verdict.rule.id for verdict in report.failures] == ["READ-2", "READ-3"]
    assert str(report) == "small does not conform: 1 passed, 2 failed, 1 skipped"
    with pytest.raises(ConformanceError, match=r"small does not conform(?s:.*)READ-2 It breaks(?s:.*)READ-3 It breaks"):
        report.raise_for_failures()


def test_a_connector_conforms_when_every_rule_holds_and_one_was_tested(small_rules):
    report = check_connector(SmallHarness, only=["READ-1", "SPLIT-1"])
    assert report.conforms
    assert str(report) == "small conforms: 1 passed, 1 skipped"
    report.raise_for_failures()
    assert not Report("small").conforms


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"only": ["REED-2"]}, "there is no rule 'REED-2'; did you mean 'READ-2'?"),
        ({"only": ["READ-9"]}, "there is no rule 'READ-9'"),
        ({"tiers": [Tier.FAULTS]}, "there is nothing to check"),
        ({"tiers": [Tier.SPARK], "only": ["READ-1"]}, "there is nothing to check"),
    ],
)
def test_what_cannot_be_checked_is_refused(small_rules, arguments, sentence):
    with pytest.raises(OptionError, match=sentence.replace("?", r"\?")):
        check_connector(SmallHarness, **arguments)


@pytest.mark.parametrize(
    ("do", "sentence"),
    [
        (lambda lab: lab.split().finish(), "SmallWriter has no finish(), but FINITE_SPLITS is not opted out of"),
        (lambda lab: lab.split().leave_hole(), "SmallWriter has no leave_hole(), but HOLES is not opted out of"),
        (lambda lab: lab.split().trim(1), "SmallWriter has no trim(), but RETENTION is not opted out of"),
        (lambda lab: lab.split().remove(), "SmallWriter has no remove(), but REMOVABLE_SPLITS is not opted out of"),
        (lambda lab: lab.harness.fault(Fault.SLOW), "small has no fault(SLOW), but FAULT_SLOW is not opted out of"),
        (lambda lab: lab.source_at_end(), "small has no start_at_end, but START_AT_END is not opted out of"),
    ],
)
def test_what_a_harness_lacks_is_reported_with_the_ability_to_opt_out_of(do, sentence):
    assert sentence in judged(do).text


@pytest.mark.parametrize("attribute", ["key_column", "value_column", "event_time_column"])
def test_a_column_that_is_not_there_is_reported_with_what_names_it(attribute):
    class Misnamed(MemoryHarness):
        pass

    setattr(Misnamed, attribute, "misnamed")
    reads = {"key_column": Lab.keys, "value_column": Lab.values, "event_time_column": Lab.expect_event_times}[attribute]

    def test(lab):
        lab.split(0)
        source, enumerator = lab.opened()
        reads(lab, lab.read(source, lab.everything(enumerator), enumerator))

    text = judge(small_rule("READ-1", test), Misnamed).text
    assert f"no column 'misnamed', only key, value, at: let {attribute} name it" in text


def test_patience_is_longer_on_an_overloaded_machine(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (40.0 * os.cpu_count(), 0.0, 0.0))

    def answers_late(lab):
        begun = time.monotonic()
        lab.until(lambda: time.monotonic() > begun + 0.3 or None, "it never answers")
        time.sleep(0.3)  # the time that the rule takes, three times its deadline

    assert (
        judge(small_rule("READ-1", answers_late), SmallHarness, patience_s=0.1, deadline_s=0.1).status is Status.PASSED
    )


pytest_plugins = ("pytester",)

SUITE = """
import pytest
from tests.conformance.small import SmallHarness
from tidegate.conformance import ConnectorSuite, Tier

class TestSmall(ConnectorSuite):
    @pytest.fixture
    def harness(self):
        return SmallHarness
"""


@pytest.fixture
def run(pytester, small_rules):
    """Test the small connector by its suite, with further lines in its class, and with arguments for pytest."""

    def run(*arguments, lines=""):
        pytester.makepyfile(test_small=SUITE + "".join(f"\n    {line}" for line in lines.splitlines()))
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)

    return run


def test_every_rule_is_a_test_by_its_id_and_title(run):
    result = run("-v")
    result.assert_outcomes(passed=2, failed=2, skipped=1)
    result.stdout.fnmatch_lines(["test_small.py::TestSmall::test_conforms[[]READ-1 It holds[]] PASSED*"])


def test_a_failure_of_the_suite_explains_itself_without_the_stack_of_the_kit(run):
    text = str(run("-m", "conformance(rule='READ-2')").stdout)
    for part in ("row 0#7 is missing", "1. split 0: create", "The rule: For a reason."):
        assert part in text
    assert "checker.py" not in text


def test_tiers_are_chosen_by_the_class_and_on_the_command_line(run):
    run(lines="tiers = (Tier.SPARK,)").assert_outcomes(passed=1)
    run("-m", "conformance(tier='spark')", "--strict-markers").assert_outcomes(passed=1, deselected=4)
