"""``tidegate ledger show`` shows who uses a state location, and how far each manifest is read."""

from tests.support.streams import HOUR, NOON
from tidegate.cli_ledger import print_answer
from tidegate.jobs.figures import clock_time


def test_it_tells_who_uses_it_and_how_far_each_manifest_is_read(query, ledger):
    query.run(2)
    query.run(1, commits=False)
    told = ledger("show")
    (manifest,) = told["manifests"]
    assert (told["lease"], told["batch"], told["batchIsWritten"], told["objectsRemembered"]) == (
        "released",
        2,
        False,
        4,
    )
    assert (manifest["chunks"], manifest["objects"], manifest["begin"], manifest["end"]) == (
        4,
        4,
        clock_time(NOON),
        clock_time(NOON + 3 * HOUR),
    )
    assert (manifest["read"], manifest["planned"], manifest["batch"]) == (2, 3, 2)
    told = ledger("show", checkpoint=False)
    assert (told["batch"], told["manifests"][0]["read"]) == (None, None)


def test_a_state_location_may_lie_in_a_bucket(query, bucket, ledger):
    place = f"s3://{bucket.name}/state"
    query.source = query.source.model_copy(update={"state_location": place})
    query.run(2)
    query.state_folder = place
    assert ledger("show")["manifests"][0]["read"] == 2


def test_a_place_that_no_query_used_and_a_checkpoint_of_another_query_are_told(query, ledger, tmp_path):
    assert "is not a state location that a query has used" in ledger("show")
    query.run()
    (tmp_path / "checkpoint").rename(tmp_path / "moved")
    assert f"--checkpoint is {query.checkpoint}, which has no batch of the query" in ledger("show")


def test_a_key_gives_a_terminal_no_commands(capsys):
    print_answer([{"key": "in/\x1b[2Jä.json", "findings": [{"state": "left out", "reason": "nothing\rat all"}]}])
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def test_an_option_that_there_is_not_is_named_in_a_sentence(query, ledger):
    query.run()
    assert "there is no option 'endpiont'; did you mean 'endpoint'?" in ledger("show", endpiont="x")
