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
