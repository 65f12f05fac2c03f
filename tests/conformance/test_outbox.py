"""The outbox of the example, where no rule of the kit can reach."""

from harness import OutboxHarness
from outbox import Database

from tidegate.alignment.splits import SplitRange
from tidegate.conformance import Row
from tidegate.readers.contract import ReadTask


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
