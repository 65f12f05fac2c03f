from tests.conformance.rules_page import COMMAND, PAGE, rules_page


def test_the_page_of_the_rules_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == rules_page(), f"docs/conformance-rules.md is stale: run {COMMAND}"
