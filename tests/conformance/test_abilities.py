import pytest

from tidegate.conformance.abilities import Abilities, Ability
from tidegate.errors import OptionError


def test_cannot_and_not_yet_are_distinguished():
    abilities = Abilities().cannot(Ability.HOLES, "rows are dense").not_yet(Ability.BATCH, "nobody asked")
    assert str(abilities.lacking(Ability.HOLES)) == "cannot: rows are dense"
    assert str(abilities.lacking(Ability.BATCH)) == "does not yet: nobody asked"
    assert abilities.lacking(Ability.RETENTION) is None
    assert list(abilities.opted_out) == [Ability.HOLES, Ability.BATCH]


@pytest.mark.parametrize(
    ("lacking", "implied"),
    [
        (Ability.MANY_SPLITS, {Ability.NEW_SPLITS, Ability.REMOVABLE_SPLITS}),
        (Ability.ROW_POSITIONS, {Ability.HOLES}),
    ],
)
def test_what_makes_no_sense_without_another_goes_with_it(lacking, implied):
    abilities = Abilities().not_yet(lacking, "too early")
    assert {ability for ability in Ability if ability not in abilities} == {lacking, *implied}
    for ability in implied:
        assert str(abilities.lacking(ability)) == f"does not yet: it needs {lacking.name} (too early)"


def test_its_own_reason_comes_before_that_of_another():
    abilities = Abilities().not_yet(Ability.MANY_SPLITS, "too early").cannot(Ability.NEW_SPLITS, "one folder")
    assert str(abilities.lacking(Ability.NEW_SPLITS)) == "cannot: one folder"


def test_opting_out_needs_a_reason_and_is_done_once():
    with pytest.raises(OptionError, match="HOLES is opted out of without a reason"):
        Abilities().cannot(Ability.HOLES, " ")
    with pytest.raises(OptionError, match="HOLES is opted out of twice"):
        Abilities().cannot(Ability.HOLES, "rows are dense").not_yet(Ability.HOLES, "too early")
