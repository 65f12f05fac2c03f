"""The rules, their pages, the abilities that they need, and the example of the page on connectors."""

import re
from inspect import getsource
from pathlib import Path
from sys import modules

import pytest
from harness import OutboxHarness
from outbox import Database

import tidegate.conformance
import tidegate.connector
from tests.conformance.rules_page import COMMAND, DATA_SOURCES, PAGE, data_sources_page, rules_page
from tests.conformance.small import RULES
from tidegate.alignment.splits import SplitRange
from tidegate.conformance import Ability, Row
from tidegate.conformance.data_source.harness import Side
from tidegate.conformance.harness import Abilities
from tidegate.conformance.rules import AREAS, Tier, all_rules, rule, rule_named, rules_of
from tidegate.errors import OptionError
from tidegate.readers.contract import ReadTask


@pytest.mark.parametrize(("page", "made"), [(PAGE, rules_page), (DATA_SOURCES, data_sources_page)])
def test_the_pages_of_the_rules_are_up_to_date(page, made):
    assert page.read_text(encoding="utf-8") == made(), f"the page is stale: run {COMMAND}"


def test_quick_rules_come_first_and_in_each_tier_those_about_leaks():
    ids = [registered.id for registered in all_rules()]
    assert ids[0] == "LIFE-1"
    assert ids.index("READ-3") < ids.index("READ-11") < ids.index("ALIGN-1") < ids.index("SPARK-1") < len(ids)


def test_every_rule_has_a_title_of_its_own_a_reason_and_a_hint():
    for registered in all_rules():
        assert re.fullmatch(rf"({'|'.join(AREAS)})-[1-9]\d*", registered.id)
        assert "[" not in registered.title, "pytest shows it in brackets"
        assert re.fullmatch(r"(?s)\S.+\.\n\nLook at: .+\.", registered.text), registered.id
    assert len({registered.title for registered in all_rules()} - {""}) == len(all_rules())


def test_few_protocols_are_optional_and_a_rule_asks_for_each():
    optional = {name for name in tidegate.connector.__all__ if name.startswith("Supports")}
    checks = {getsource(modules[registered.test.__module__]) for registered in all_rules()}
    assert len(optional) <= 5
    assert [name for name in optional if not any(re.search(rf"isinstance\(.+, {name}\)", c) for c in checks)] == []


def test_a_function_becomes_a_rule_with_its_text(small_rules):
    @rule("READ-9", needs=[Ability.HOLES])
    def something(lab):
        """It is good.

        For a reason.
        """

    made = rule_named("READ-9")
    assert (made.area, made.needs, made.test) == ("READ", {Ability.HOLES}, something)
    assert (made.title, made.text) == ("It is good", "For a reason.")


def test_rules_are_chosen_by_tier(small_rules):
    assert [registered.id for registered in rules_of([Tier.SPARK])] == ["SPARK-1"]
    assert len(rules_of(Tier)) == len(RULES)


@pytest.mark.parametrize(
    ("lacking", "implied"),
    [
        (Ability.MANY_SPLITS, {Ability.NEW_SPLITS, Ability.REMOVABLE_SPLITS}),
        (Ability.ROW_POSITIONS, {Ability.HOLES}),
    ],
)
def test_what_makes_no_sense_without_another_goes_with_it(lacking, implied):
    abilities = Abilities().cannot(lacking, "too early")
    assert {ability for ability in Ability if ability not in abilities} == {lacking, *implied}
    for ability in implied:
        assert abilities.lacking(ability) == f"it needs {lacking.name} (too early)"
    both = abilities.cannot(min(implied, key=lambda ability: ability.name), "one folder")
    assert "one folder" in [both.lacking(ability) for ability in implied]  # its own reason counts


def test_opting_out_needs_a_reason_and_is_done_once():
    with pytest.raises(OptionError, match="HOLES is opted out of without a reason"):
        Abilities().cannot(Ability.HOLES, " ")
    with pytest.raises(OptionError, match="HOLES is opted out of twice"):
        Abilities().cannot(Ability.HOLES, "rows are dense").cannot(Ability.HOLES, "too early")


ROOT = Path(__file__).parents[2]
CONNECTORS_PAGE = (ROOT / "docs/write-a-connector.md").read_text()
EXAMPLE = "\n".join(path.read_text() for path in sorted((ROOT / "examples/custom_connector").glob("*.py")))
CODE = re.findall(r"```python\n(.*?)```", CONNECTORS_PAGE, re.DOTALL)
USE = "tidegate.register(spark)"


@pytest.mark.parametrize(
    "block",
    [block for block in CODE if USE not in block],
    ids=lambda block: block.strip().split("\n")[0],
)
def test_code_of_the_page_stands_in_the_example(block):
    assert block in EXAMPLE


def test_the_pages_name_what_the_kit_needs():
    pages = {Side: "docs/data-sources.md", Ability: "docs/conformance.md"}
    for needs, page in pages.items():
        text = (ROOT / page).read_text()
        assert [need.name for need in needs if f"| `{need.name}` | {need.value} |" not in text] == []
    protocols = set(re.findall(r"`(Supports\w+)`", CONNECTORS_PAGE))
    assert [name for name in protocols if not hasattr(tidegate.connector, name)] == []


def test_what_is_deleted_after_the_look_for_losses_is_read(monkeypatch):
    looked, harness = Database.extents, OutboxHarness()
    writer = harness.create_split()
    writer.append([Row(0, n, n, "") for n in range(3)])

    def looked_and_trimmed(database, shards):
        extents = looked(database, shards)
        writer.trim(2)
        return extents

    monkeypatch.setattr(Database, "extents", looked_and_trimmed)
    task = ReadTask((SplitRange(writer.shard, 0, 3),))
    assert [batch.num_rows for batch in harness.source({}).reader(None).read(task)] == [3]
    harness.close()
