"""What Spark told of batches, kept for accounts."""

import tempfile

from tests.support.progresses import one
from tidegate.enumerators.notes.application import application_notes
from tidegate.sources.progress.told import NOTHING_TOLD, keep_batch, keep_plan, told


def test_the_last_batches_of_a_query_and_its_plan_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert told("7254cabc") == NOTHING_TOLD
    for number in range(130):
        keep_batch(one(number))
    keep_plan("7254cabc", "HashAggregate")
    application_notes("7254cabc").within("told").write("129", {"batchId": 129})  # of another version
    batches, plan = told("7254cabc")
    assert (sorted(batches), plan) == ([*range(10, 129)], "HashAggregate")
    (kept,) = batches[128].sources
    assert (kept.end.progress.positions, kept.input_rows, kept.progress.by_split) == ({"orders-0": 1}, 100, {})
