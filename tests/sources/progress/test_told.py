"""What Spark told of batches, kept for accounts."""

import json
import os
import tempfile
import time
from types import SimpleNamespace

import pytest

from tests.support.progresses import one, report, source
from tidegate.enumerators.notes.application import application_notes
from tidegate.errors import ConnectorError
from tidegate.sources.progress import batches as listening
from tidegate.sources.progress.told import NOTHING_TOLD, PlanFacts, keep_batch, keep_plan, told

PLAN = "HashAggregate(keys=[aes_decrypt(a#1, hush)], functions=[count(1)])"
QUERY, RUN = "7254cabc", "a145ff5a"


@pytest.fixture(autouse=True)
def notes(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return application_notes("app").within("batches")


def stateful(**fields):
    state = {"numRowsTotal": 4, "numRowsDroppedByWatermark": 0}
    return {**one(0), "stateOperators": [state], **fields}


def explained(plan):
    def explain(extended):
        if plan is None:
            raise RuntimeError("the query has ended")
        return plan

    return SimpleNamespace(runId=RUN, _jsq=SimpleNamespace(explainInternal=explain))


def listener(notes, *active):
    return listening._BatchListener(notes, SimpleNamespace(active=[*active]))


def test_the_last_batches_of_a_query_and_facts_of_its_plan_are_kept():
    assert told("7254cabc") == NOTHING_TOLD
    for number in range(130):
        keep_batch(one(number))
    facts = PlanFacts(tells_rows=True, counts_all=False)
    keep_plan("7254cabc", RUN, facts)
    application_notes("7254cabc").within("told").write("129", {"batchId": 129})  # of another version
    batches, plan = told("7254cabc")
    assert (sorted(batches), plan) == ([*range(10, 129)], facts)
    (kept,) = batches[128].sources
    assert (kept.end.progress.positions, kept.input_rows, kept.progress.by_split) == ({"orders-0": 1}, 100, {})


@pytest.mark.parametrize(
    ("plan", "facts"),
    [
        (PLAN, (True, True)),
        ("HashAggregate(functions=[count(a#1)])", (True, False)),
        ("HashAggregate(functions=[count(1) FILTER (WHERE a#1)])", (True, False)),
        ("HashAggregate(functions=[count(1)])\n+- Expand [a#1]", (False, True)),
    ],
)
def test_only_facts_of_a_plan_are_kept_which_may_hold_secrets(notes, tmp_path, plan, facts):
    listener(notes, explained(plan)).on_progress(json.dumps(stateful()))
    assert told(QUERY).plan == facts
    assert not any("hush" in path.read_text() for path in tmp_path.rglob("*.json"))


def test_the_plan_of_another_run_is_not_that_of_the_last(notes):
    listener(notes, explained(PLAN)).on_progress(json.dumps(stateful()))
    listener(notes, explained(PLAN)).on_progress(json.dumps(stateful(batchId=1, runId="later")))
    assert told(QUERY).plan is None


def test_the_plan_is_asked_for_until_it_is_kept(notes):
    active = [explained(None)]
    listens = listening._BatchListener(notes, SimpleNamespace(active=active))
    listens.on_progress(json.dumps(stateful()))
    assert told(QUERY).plan is None
    active[:] = [explained(PLAN)]
    listens.on_progress(json.dumps(stateful(batchId=1)))
    assert told(QUERY).plan == (True, True)


def test_a_note_that_cannot_be_left_keeps_no_other_back(notes, monkeypatch):
    write = type(notes).write

    def refuse(folder, name, note):
        if name == "full":
            raise ConnectorError("no space")
        write(folder, name, note)

    monkeypatch.setattr(type(notes), "write", refuse)
    sources = [source(report(planner=planner)) for planner in ("full", "9f1c")]
    listener(notes).on_progress(json.dumps({**one(0), "sources": sources}))
    assert (notes.names(), [*told(QUERY).batches]) == (["9f1c"], [0])


def test_a_session_removes_what_was_unused_for_a_day(monkeypatch, tmp_path):
    class Session:
        streams = None

    monkeypatch.setattr(listening, "add_listener", lambda *_: None)
    keep_batch(one(0))
    listening.listen_to_batches(Session(), "app")
    assert [*told(QUERY).batches] == [0]
    yesterday = time.time() - 25 * 3600
    for path in tmp_path.rglob("*"):
        os.utime(path, (yesterday, yesterday))
    listening.listen_to_batches(Session(), "app")
    assert told(QUERY) == NOTHING_TOLD
