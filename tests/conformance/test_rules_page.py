import re

from tests.conformance.rules_page import COMMAND, PAGE, rules_page
from tidegate.conformance.rules import all_rules


def test_the_page_of_the_rules_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == rules_page(), f"docs/conformance-rules.md is stale: run {COMMAND}"


def test_every_rule_is_on_the_page():
    headings = re.findall(r"^### (.*)$", rules_page(), re.MULTILINE)
    assert headings == [f"{rule.id}: {rule.title}" for rule in all_rules()]
