"""The command line of ``tidegate ledger``: verbs and help."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "how", "sentence"),
    [
        (("reread",), {}, "nothing to read again is named: give GLOB, or --from and --to"),
        (("reread", "in/*"), {"path": False}, "--option path=s3://... is needed"),
        (("reread", "--from", "noon"), {}, "--from is 'noon', but a time is expected"),
        (("show",), {"endpiont": "x"}, "there is no option 'endpiont'; did you mean 'endpoint'?"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(query, ledger, arguments, how, sentence):
    query.run()
    assert sentence in ledger(*arguments, **how)


@pytest.mark.parametrize("verb", ["show", "why", "reread", "queries", "forget"])
def test_every_verb_has_help_of_its_own(tidegate, verb):
    code, output, _ = tidegate("ledger", verb, "--help")
    assert code == 0
    assert f"tidegate ledger {verb} " in output
    assert verb in tidegate("ledger", "--help")[1]


def test_a_misspelt_verb_is_told_with_the_nearest(tidegate):
    code, _, errors = tidegate("ledger", "shwo", "state")
    assert code == 2
    assert "No such command 'shwo'. Did you mean 'show'?" in errors
