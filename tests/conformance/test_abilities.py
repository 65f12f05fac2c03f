import pytest

from tidegate.conformance.abilities import Abilities, Ability
from tidegate.errors import OptionError


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


def test_its_own_reason_comes_before_that_of_another():
    abilities = Abilities().cannot(Ability.MANY_SPLITS, "too early").cannot(Ability.NEW_SPLITS, "one folder")
    assert abilities.lacking(Ability.NEW_SPLITS) == "one folder"


def test_opting_out_needs_a_reason_and_is_done_once():
    with pytest.raises(OptionError, match="HOLES is opted out of without a reason"):
        Abilities().cannot(Ability.HOLES, " ")
    with pytest.raises(OptionError, match="HOLES is opted out of twice"):
        Abilities().cannot(Ability.HOLES, "rows are dense").cannot(Ability.HOLES, "too early")
