"""Batches as Spark makes them, in another process."""

import json
from contextlib import closing

from pyspark.sql.streaming.datasource import ReadMaxBytes

from tests.sources.memory import MemoryEnumerator, MemorySource
from tests.support.streams import NOON
from tidegate.alignment.budget import Cost
from tidegate.conformance.lab.elsewhere import Elsewhere
from tidegate.conformance.lab.spark.planner import stream_by_limit

ROW_BYTES = 60


class ByteEnumerator(MemoryEnumerator):
    positions_are_rows = False

    def cost(self, ranges):
        size = sum(wanted.end - wanted.start for wanted in ranges.values())
        return Cost(rows=size, bytes=size)


class ByteSource(MemorySource):
    def enumerator(self, state):
        return ByteEnumerator(self.path)


def test_a_row_may_take_many_plans_where_positions_are_bytes(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({split: [[n * ROW_BYTES, NOON + n] for n in range(5)] for split in ("a", "b")}))
    with closing(Elsewhere()) as process:
        batches = process.call(stream_by_limit, ByteSource(path=str(path)), ReadMaxBytes(1))
    assert len(batches) > 300
    assert sum(part.num_rows for batch in batches for part in batch.read) == 10
