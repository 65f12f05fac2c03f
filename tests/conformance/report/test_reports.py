import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.conformance.small import SmallHarness, breaks, small_rule
from tidegate.conformance.checker import check_connector
from tidegate.conformance.errors import ConformanceError
from tidegate.conformance.report.files import report_file, write_reports
from tidegate.conformance.report.json import (
    reports_told,
    verdict_from,
    verdict_sent,
)
from tidegate.conformance.report.page import report_page
from tidegate.conformance.report.summary import area_lines, notes
from tidegate.conformance.verdicts import Report, Status, Verdict
from tidegate.errors import OptionError


@pytest.fixture
def report(small_rules):
    return check_connector(SmallHarness, exempt={"READ-3": "issue 12"}, only=["SPLIT-1", "READ-1", "READ-2", "READ-3"])


class Tags(HTMLParser):
    """Checks that every element is closed in the right order."""

    VOID = frozenset({"meta", "br"})

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags(page):
    parsed = Tags()
    parsed.feed(page)
    assert parsed.open == []
    return parsed.seen


def test_json_has_these_keys(report):
    page = json.loads(json.dumps(reports_told([report])))
    assert set(page) == {"version", "tidegate", "reports"}
    (only,) = page["reports"]
    assert set(only) == {
        "connector",
        "conforms",
        "headline",
        "counts",
        "rules",
        "optedOut",
        "notChecked",
    }
    assert only["counts"] == {
        "passed": 1,
        "failed": 1,
        "hung": 0,
        "not_exercised": 0,
        "exempt": 1,
        "stale": 0,
        "skipped": 1,
    }
    assert only["notChecked"] == ["SPARK-1"]
    failed = next(rule for rule in only["rules"] if rule["rule"] == "READ-2")
    assert failed.pop("seconds") >= 0
    assert failed == {
        "rule": "READ-2",
        "title": "the title of READ-2",
        "level": "must",
        "tier": "contract",
        "status": "failed",
        "fails": True,
        "text": "row 0#7 is missing",
        "story": ["split 0: create"],
        "connector": "small",
        "raised": False,
        "hereOnly": False,
    }


def test_verdicts_travel_as_json(report):
    for verdict in (*report, failed("READ-2", here_only=True), failed("READ-2", raised=True)):
        again = verdict_from(json.loads(json.dumps(verdict_sent(verdict))))
        assert replace(again, seconds=verdict.seconds, rule=verdict.rule) == verdict


def test_the_summary_tells_all_that_does_not_simply_hold(report):
    assert [line.split()[0] for line in area_lines(report)] == ["SPLIT", "READ"]
    assert area_lines(report)[1].endswith("1 passed, 1 failed, 1 exempt")
    assert notes(report) == [
        "failed: READ-2 the title of READ-2 (MUST)",
        "exempt: READ-3 the title of READ-3: issue 12",
        "without HOLES: cannot: nothing leaves any",
        "without BATCH: does not yet: asked for by nobody",
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


def test_the_page_needs_no_other_file(report):
    page = report_page([report])
    assert not re.search(r"https?:|src=|@import|url\(|<script|<link", page)
    assert "prefers-color-scheme: dark" in page
    assert "$" not in page


def test_the_page_shows_each_rule_and_opens_the_failures(report):
    page = report_page([report])
    details = [attributes for tag, attributes in tags(page) if tag == "details"]
    assert [detail["class"] for detail in details if "open" in detail] == ["failed"]
    assert sorted(detail["class"] for detail in details) == ["exempt", "failed", "failed", "passed", "skipped"]
    for text in ("row 0#7 is missing", "<li>split 0: create</li>", "<li>the cable</li>", "The purpose of READ-2."):
        assert text in page
    assert "<td>cannot</td>" in page
    assert "<td>does not yet</td>" in page
    assert "small has no HOLES: it cannot: nothing leaves any" in page
    assert "SPARK-1 the title of SPARK-1 (MUST, spark)" in page


def test_what_connectors_say_is_no_html():
    verdict = Verdict(small_rule("READ-1", breaks), Status.FAILED, "<b>&", ("<i>",), connector="<u>")
    page = report_page([Report("<u>", (verdict,))])
    assert not {"b", "i", "u"} & {tag for tag, _ in tags(page)} - {"b"}
    assert "&lt;b&gt;&amp;" in page


def test_one_page_shows_many_connectors(report):
    page = report_page([report, replace(report, connector="other")])
    tags(page)
    assert "<h1>2 connectors: 0 conform, 2 do not</h1>" in page
    assert page.count("does not conform") >= 2


def test_the_name_of_a_file_says_its_format(report, tmp_path):
    for name, beginning in (("sub/report.JSON", "{\n"), ("report.html", "<!doctype html>")):
        write_reports(report_file("--report", str(tmp_path / name)), [report])
        assert (tmp_path / name).read_text().startswith(beginning)
    with pytest.raises(OptionError, match=r"--report is 'report.pdf', but a file that ends in .html or .json"):
        report_file("--report", "report.pdf")


def test_what_cannot_be_written_is_refused_before_anything_is_checked(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"--report is '.*', whose folder cannot be made: .*file"):
        report_file("--report", str(tmp_path / "file" / "report.html"))
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(OptionError, match=r"--report is '.*folder.html', which cannot be written"):
        report_file("--report", str(tmp_path / "folder.html"))
