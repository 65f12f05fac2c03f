import re

import pytest

from tests.conformance.small import RULES
from tidegate.conformance import rules
from tidegate.conformance.abilities import Ability
from tidegate.conformance.rules import AREAS, Tier, all_rules, rule, rule_named, rules_of


def test_rules_are_sorted_by_area_and_number():
    ids = [registered.id for registered in all_rules()]
    assert ids.index("READ-3") < ids.index("READ-11") < ids.index("ALIGN-1")
    areas = [registered.area for registered in all_rules()]
    assert list(dict.fromkeys(areas)) == [area for area in AREAS if area in areas]


def test_every_text_has_its_function():
    assert set(rules._texts().sections()) == {registered.id for registered in all_rules()}
    assert all(re.fullmatch(rf"({'|'.join(AREAS)})-[1-9]\d*", name) for name in rules._texts().sections())


def test_a_function_becomes_a_rule_with_its_text(small_rules):
    @rule("READ-9", needs=[Ability.HOLES])
    def something(lab):
        pass

    made = rule_named("READ-9")
    assert (made.area, made.needs, made.test) == ("READ", {Ability.HOLES}, something)
    assert made.title == "a range gives the same rows every time, also when more have come"


@pytest.mark.parametrize("registered", all_rules(), ids=lambda registered: registered.id)
def test_every_rule_says_all_that_its_page_shows(registered):
    for text in (
        registered.title,
        registered.purpose,
        registered.tested,
        registered.passes,
        *registered.look_at,
    ):
        assert text.strip()
    assert registered.look_at
    assert "\n" not in registered.title
    assert "[" not in registered.title  # pytest shows it in brackets


def test_no_two_rules_have_one_title_or_one_function():
    assert len({registered.title for registered in all_rules()}) == len(all_rules())
    assert len({registered.test.__name__ for registered in all_rules()}) == len(all_rules())


def test_rules_are_chosen_by_tier(small_rules):
    assert [registered.id for registered in rules_of([Tier.SPARK])] == ["SPARK-1"]
    assert len(rules_of(Tier)) == len(RULES)


def test_quick_tiers_are_checked_first_and_in_each_what_waits_for_nothing_and_then_what_is_about_leaks():
    checked = rules_of(Tier)
    assert [registered.tier for registered in checked] == [
        tier for tier in Tier for registered in checked if registered.tier is tier
    ]
    assert not checked[0].waits
    waiting = [registered.waits for registered in checked if registered.tier is Tier.CONTRACT]
    assert waiting == sorted(waiting)
    assert next(registered.id for registered in checked if registered.waits) == "LIFE-1"
