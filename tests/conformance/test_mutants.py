"""The kit finds every sin, by the rule that the mutant names."""

import pytest

from tests.conformance.mutants import MUTANTS
from tests.conformance.references import REFERENCES
from tidegate.conformance.checker import Status, judge
from tidegate.conformance.rules import all_rules, rule_named


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.killer} {mutant.sin}")
def test_a_sin_is_found_by_its_rule(mutant):
    verdict = judge(rule_named(mutant.killer), mutant.harness, patience_s=mutant.patience_s)
    assert verdict.status is Status.FAILED, "the mutant lives"
    assert mutant.words in verdict.text, verdict.text


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_with_all_that_is_optional_keeps_the_rules_for_it(name):
    verdict = judge(rule_named(name), REFERENCES[name])
    assert verdict.status is Status.PASSED, verdict.explained()


def test_every_rule_that_must_hold_has_its_killer():
    assert {rule.id for rule in all_rules()} == {mutant.killer for mutant in MUTANTS}
