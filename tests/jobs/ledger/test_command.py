"""The command line of ``tidegate ledger``: verbs, help, and lines for people."""

import re

import pytest


@pytest.mark.parametrize(
    ("arguments", "how", "sentence"),
    [
        (
            ("reread", "--batches", "x"),
            {},
            "--batches is 'x', but a number or a range is expected, such as 7 or 3-5",
        ),
        (("reread",), {}, "nothing to read again is named: give GLOB, --from and --to, or --batches"),
        (("reread", "in/*"), {"path": False}, "--option path=s3://... is needed"),
        (("reread", "in/*", "--batches", "1"), {}, "--batches cannot be combined with GLOB, --from or --to"),
        (("reread", "--from", "noon"), {}, "--from is 'noon', but a time is expected"),
        (("show",), {"endpiont": "x"}, "there is no option 'endpiont'; did you mean 'endpoint'?"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(query, ledger, arguments, how, sentence):
    query.run()
    assert sentence in ledger(*arguments, **how)


def test_people_see_lines(query, tidegate):
    query.run(2)
    code, output, _ = tidegate("ledger", "show", query.state_folder, "--checkpoint", query.checkpoint)
    assert code == 0
    assert f"\n{'last batch':25}  1, written\n" in output
    assert "  4 chunks, 4 objects, " in output
    assert "  2 chunks read, last by batch 1\n" in output
    code, output, _ = tidegate("ledger", "queries", query.state_folder)
    assert code == 0
    assert re.match(r"[0-9a-f]{12}  3 files, [\d,]+ bytes, written on 20.*, has used it last: released$", output)
    code, output, _ = tidegate("ledger", "why", query.state_folder, "in/3*", "--checkpoint", query.checkpoint)
    assert code == 0
    assert output.startswith("in/3.parquet\n  waiting: it waits at position 3 of manifest 00000001-")


def test_people_are_told_that_no_query_is_left(query, tidegate):
    query.run()
    _, output, _ = tidegate("ledger", "queries", query.state_folder)
    assert tidegate("ledger", "forget", query.state_folder, output.split()[0])[0] == 0
    assert tidegate("ledger", "queries", query.state_folder) == (0, "no query keeps anything here\n", "")


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
