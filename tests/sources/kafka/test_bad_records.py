"""Records that are set aside, in streams and batch queries, and their number in the progress."""

import json

import tidegate
from tests.sources.kafka.test_event_time import produce
from tests.support.command import await_that
from tests.support.pages import blocks
from tests.support.streams import HOUR, NOON, available_now, new_topic, parsed, running, start
from tests.support.streams import kafka_source as source_of
from tidegate.jobs.account.account import Figure
from tidegate.jobs.account.of_checkpoint import run_account

DONE = NOON + HOUR
BAD = [b"no json", None, b'{"at": "soon", "done": %d}' % DONE, b'{"at": -5}']


def good(hours):
    return json.dumps({"at": NOON + int(hours * HOUR)}).encode()


def set_aside(folder):
    lines = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
    return sorted((line["partition"], line["offset"]) for line in lines)


def test_a_stream_goes_on_without_its_bad_records_and_its_restart_counts_on(spark, kafka, tmp_path, capsys):
    folder, topic = tmp_path / "bad", new_topic(kafka, [], [])
    produce(kafka, topic, 0, [(value, []) for value in (BAD[0], good(0), BAD[1], good(3), BAD[2])])
    produce(kafka, topic, 1, [(value, []) for value in (good(2), *BAD)])
    source = source_of(
        kafka, topic, event_time="json:/at", bad_records_path=str(folder), starting_offsets="earliest",
        max_offsets_per_trigger=4, watermark_from="json:/done",
    )  # fmt: skip
    frame = source.read_stream(spark).select("partition", "offset")
    run = available_now(frame, tmp_path / "checkpoint")
    bad = [(0, 0), (0, 2), (0, 4), (1, 1), (1, 2), (1, 3), (1, 4)]
    assert (run.offsets(), set_aside(folder)) == ([(0, 1), (0, 3), (1, 0)], bad)
    assert run.bad_records == 7
    assert parsed(run.query.lastProgress.sources[0].endOffset)["watermark"] == DONE  # both marks are bad records

    produce(kafka, topic, 0, [(BAD[0], []), (good(4), [])])
    again = available_now(frame, tmp_path / "checkpoint")
    assert (again.offsets(), set_aside(folder)) == ([(0, 6)], sorted([*bad, (0, 5)]))
    assert again.bad_records == 8

    in_batch = source.model_copy(update={"bad_records_path": str(tmp_path / "batch")})
    assert in_batch.read(spark).count() == 4
    assert set_aside(tmp_path / "batch") == set_aside(folder)

    (block,) = (block for block in blocks("docs/options.md") if "/lake/bad-records" in block.text)
    block.with_own({"/lake/bad-records": str(folder)}).run({"spark": spark})
    assert capsys.readouterr().out.count("the record has no") == 8


def test_an_account_knows_the_bad_records_of_the_last_batch_of_a_run_that_was_stopped(spark, kafka, tmp_path, capsys):
    topic = new_topic(kafka, [])
    produce(kafka, topic, 0, [(value, []) for value in (good(0), *BAD, good(1))])
    fields = {"event_time": "json:/at", "bad_records_path": str(tmp_path / "bad"), "starting_offsets": "earliest"}
    rows = source_of(kafka, topic, **fields).read_stream(spark)
    with running(start(rows, tmp_path / "checkpoint", "noop", processingTime="1 hour")) as query:
        await_that(lambda: query.lastProgress is not None)
    account = tidegate.account(query)
    assert (account.read, account.set_aside, account.complete) == (Figure(6), Figure(len(BAD)), True)
    run_account(str(tmp_path / "checkpoint"), as_json=True)
    outside = json.loads(capsys.readouterr().out)
    assert (outside["setAside"], outside["complete"]) == (len(BAD), True)
