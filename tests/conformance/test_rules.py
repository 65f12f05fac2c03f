import pytest

from tests.conformance.small import RULES
from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.rules import AREAS, Tier, all_rules, rule_named, rules_of, tier_named
from tidegate.errors import OptionError

WORDS = {"purpose": "x", "tested": "x", "passes": "x", "look_at": ("x",)}


def test_rules_are_sorted_by_area_and_number():
    ids = [registered.id for registered in all_rules()]
    assert ids.index("READ-2") < ids.index("READ-10") < ids.index("ALIGN-1")
    areas = [registered.area for registered in all_rules()]
    assert list(dict.fromkeys(areas)) == [area for area in AREAS if area in areas]


def test_ids_are_numbered_without_a_gap():
    for area in AREAS:
        numbers = [int(registered.id.partition("-")[2]) for registered in all_rules() if registered.area == area]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("name", ["READ-1", "BREAD-1", "READ", "READ-", "READ-x", "READ-01", "READ-0", "READ-1b", ""])
def test_an_id_that_is_taken_or_malformed_is_refused(small_rules, name):
    with pytest.raises(OptionError, match=f"{name!r} is taken, or is no area and number such as READ-1"):
        rule(name, "a title", **WORDS)(lambda lab: None)
    assert all_rules() == sorted(small_rules, key=lambda registered: registered.order)


def test_of_the_rules_that_wait_those_about_leaks_come_first():
    waiting = [registered.id for registered in rules_of([Tier.CONTRACT]) if registered.waits]
    assert waiting.index("LIFE-3") < waiting.index("SPLIT-1")


def test_a_rule_becomes_a_check_and_data(small_rules):
    @rule("READ-9", "a title", needs=[Ability.HOLES], **WORDS)
    def check_something(lab):
        """Test something."""

    made = rule_named("READ-9")
    assert (made.area, made.needs, made.test) == ("READ", {Ability.HOLES}, check_something.__wrapped__)
    assert check_something.__doc__ == "Test something."


@pytest.mark.parametrize("registered", all_rules(), ids=lambda registered: registered.id)
def test_every_rule_says_all_that_its_page_shows(registered):
    for text in (
        registered.title,
        registered.purpose,
        registered.tested,
        registered.passes,
        registered.source,
        *registered.look_at,
    ):
        assert text.strip()
    assert registered.look_at
    assert "\n" not in registered.title
    assert "[" not in registered.title  # pytest shows it in brackets
    assert registered.check.__wrapped__ is registered.test
    assert registered.test.__name__.startswith("check_")


def test_no_two_rules_have_one_title_or_one_check():
    assert len({registered.title for registered in all_rules()}) == len(all_rules())
    assert len({registered.test.__name__ for registered in all_rules()}) == len(all_rules())


def test_rules_are_chosen_by_tier(small_rules):
    assert [registered.id for registered in rules_of([Tier.SPARK])] == ["SPARK-1"]
    assert len(rules_of(Tier)) == len(RULES)


def test_quick_tiers_are_checked_first_and_in_each_what_waits_for_nothing():
    rules = rules_of(Tier)
    assert [registered.tier for registered in rules] == [
        tier for tier in Tier for registered in rules if registered.tier is tier
    ]
    assert not rules[0].waits
    waiting = [registered.waits for registered in rules if registered.tier is Tier.CONTRACT]
    assert waiting == sorted(waiting)


def test_a_misspelt_rule_or_tier_is_refused_with_the_nearest():
    with pytest.raises(OptionError, match=r"there is no rule 'REED-1'; did you mean 'READ-1'\?"):
        rule_named("REED-1")
    with pytest.raises(OptionError, match=r"--tier is 'spak', but contract, .* are the tiers; did you mean 'spark'\?"):
        tier_named("--tier", "spak")
    assert tier_named("--tier", "faults") is Tier.FAULTS
