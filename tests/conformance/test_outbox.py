"""The outbox of the example: rules find the mistakes of its author, and tests cover what no rule can reach."""

import pytest
from harness import OutboxHarness
from outbox import Database

from tests.conformance.outbox_mutants import MISTAKES
from tidegate.alignment.splits import SplitRange
from tidegate.conformance import Row
from tidegate.conformance.checker import judge
from tidegate.conformance.rules import rule_named
from tidegate.conformance.verdicts import Status
from tidegate.readers.contract import ReadTask


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.killer} {mistake.what}")
def test_a_mistake_is_found(mistake):
    verdict = judge(rule_named(mistake.killer), mistake.harness(), patience_s=0.5)
    assert verdict.status is Status.FAILED, "the mistake lives"


def test_what_is_deleted_after_the_look_for_losses_is_read(monkeypatch):
    looked, harness = Database.extents, OutboxHarness()
    writer = harness.create_split()
    writer.append([Row(0, n, n, "") for n in range(3)])

    def looked_and_trimmed(database, shards):
        extents = looked(database, shards)
        writer.trim(2)
        return extents

    monkeypatch.setattr(Database, "extents", looked_and_trimmed)
    task = ReadTask((SplitRange(writer.shard, 0, 3),))
    assert [batch.num_rows for batch in harness.source({}).reader(None).read(task)] == [3]
    harness.close()
