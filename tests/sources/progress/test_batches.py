"""What Spark reported of batches, kept for accounts."""

import json
import os
import tempfile
import time
from collections import deque
from types import SimpleNamespace

import pytest

from tests.support.progresses import PROVEN, one, report, source
from tidegate.enumerators.notes.application import application_notes
from tidegate.errors import ConnectorError
from tidegate.sources.progress import batches as listening
from tidegate.sources.progress.batches import keep_batch, kept_batches

QUERY, RUN = "7254cabc", "a145ff5a"
PLAN = [
    "WriteToMicroBatchDataSource MemorySink",
    "~Aggregate [aes_decrypt(a#1, hush)], [count(1) AS n#2L]",
    "~StreamingDataSourceV2ScanRelation[a#1] tidegate_kafka",
]
FACTS = PROVEN._replace(counts_late=False)


@pytest.fixture(autouse=True)
def notes(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return application_notes("app").within("batches")


@pytest.fixture(autouse=True)
def plans(monkeypatch):
    """The plans of queries, of which Spark may no longer have one."""
    found = {RUN: PLAN}
    monkeypatch.setattr(listening, "plan_steps", lambda query: found[query.runId])
    return found


RUNNING = SimpleNamespace(runId=RUN)


def listener(notes, *active):
    return listening._BatchListener(notes, SimpleNamespace(active=[*active]))


def test_the_last_batches_of_a_query_are_kept_with_facts_of_their_plans():
    assert kept_batches(QUERY) == {}
    for number in range(130):
        keep_batch(one(number), PROVEN if number % 2 else None)
    application_notes(QUERY).within("batches").write("129", {"batchId": 129})  # of another version
    batches = kept_batches(QUERY)
    assert sorted(batches) == [*range(10, 129)]
    assert (batches[127].plan, batches[128].plan) == (PROVEN, None)
    (kept,) = batches[128].sources
    assert (kept.end.progress.positions, kept.input_rows, kept.progress.by_split) == ({"orders-0": 1}, 100, {})


def test_only_facts_of_a_plan_are_kept_which_may_hold_secrets(notes, tmp_path):
    listener(notes, RUNNING).on_progress(json.dumps(one(0)))
    assert kept_batches(QUERY)[0].plan == FACTS
    assert not any("hush" in path.read_text() for path in tmp_path.rglob("*.json"))


def test_the_plan_of_another_run_is_not_that_of_the_last(notes):
    listens = listener(notes, RUNNING)
    listens.on_progress(json.dumps(one(0)))
    listens.on_progress(json.dumps({**one(1), "runId": "later"}))
    assert [entry.plan for entry in kept_batches(QUERY).values()] == [FACTS, None]


def test_the_plan_is_asked_for_until_it_is_known_and_once(notes, plans):
    plans.clear()
    listens = listener(notes, RUNNING)
    listens.on_progress(json.dumps(one(0)))
    plans[RUN] = PLAN
    listens.on_progress(json.dumps(one(1)))
    plans.clear()
    listens.on_progress(json.dumps(one(2)))
    assert [kept_batches(QUERY)[number].plan for number in range(3)] == [None, FACTS, FACTS]


def test_the_first_batch_of_a_run_is_noted(notes, monkeypatch):
    heard = []
    monkeypatch.setattr(listening, "await_events", heard.append)
    monkeypatch.setattr(listening.SparkSession, "active", lambda: "spark")
    monkeypatch.setattr(listening, "_ended", deque())
    listens = listener(notes)
    for number in (7, 8):
        listens.on_progress(json.dumps({**one(number), "runId": "seven"}))
    for run in ("seven", *map(str, range(999))):
        listens.on_end(run)
    assert (listening.first_batch("seven"), heard) == (7, [])
    listens.on_end("the last")
    assert "seven" not in listening._first_batches
    assert (listening.first_batch("of another process"), heard) == (None, ["spark"])


def test_a_note_that_cannot_be_left_keeps_no_other_back(notes, monkeypatch):
    write = type(notes).write

    def refuse(folder, name, note):
        if name == "full":
            raise ConnectorError("no space")
        write(folder, name, note)

    monkeypatch.setattr(type(notes), "write", refuse)
    sources = [source(report(planner=planner)) for planner in ("full", "9f1c")]
    listener(notes).on_progress(json.dumps({**one(0), "sources": sources}))
    assert (notes.names(), [*kept_batches(QUERY)]) == (["9f1c"], [0])


def test_a_session_removes_what_was_unused_for_a_day(monkeypatch, tmp_path):
    class Session:
        streams = None

    monkeypatch.setattr(listening, "add_listener", lambda *_: None)
    keep_batch(one(0), None)
    listening.listen_to_batches(Session(), "app")
    assert [*kept_batches(QUERY)] == [0]
    yesterday = time.time() - 25 * 3600
    for path in tmp_path.rglob("*"):
        os.utime(path, (yesterday, yesterday))
    listening.listen_to_batches(Session(), "app")
    assert kept_batches(QUERY) == {}
